package gormstore_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/libtnb/sqlite"
	gormmysql "gorm.io/driver/mysql"
	gormpostgres "gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
	"github.com/transmsg/transmsg/store/mysql"
	"github.com/transmsg/transmsg/store/postgres"
	"github.com/transmsg/transmsg/store/storetest"
)

// callersPool opens gorm the way a service does, with its own settings.
func callersPool(t *testing.T, d gorm.Dialector) *gorm.DB {
	t.Helper()
	db, err := gorm.Open(d, &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pool, err := db.DB()
		if err == nil {
			err = pool.Close()
		}
		if err != nil {
			t.Error(err)
		}
	})
	return db
}

// onPool opens a store on a caller's *gorm.DB of any dialect.
func onPool(ctx context.Context, db *gorm.DB, o gormstore.Options) (*gormstore.Store, error) {
	return gormstore.Open(ctx, anystore.Gorm(db), o)
}

func onCallersPool(t *testing.T, db *gorm.DB) *gormstore.Store {
	t.Helper()
	s, err := onPool(t.Context(), db, gormstore.Options{SkipSchemaCheck: true, InsertTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if _, err := migrations.Up(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestConformanceOnCallersPool: MySQL's sessions are REPEATABLE READ here and the driver
// prepares every statement.
func TestConformanceOnCallersPool(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Store {
		return onCallersPool(t, callersPool(t, gormmysql.Open(dbtest.MySQL(t)+"?parseTime=true")))
	})
}

func TestNewOnPostgresAndSQLite(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]gorm.Dialector{
		"postgres": gormpostgres.Open(dbtest.Postgres(t)), "sqlite": sqlite.Open(dbtest.SQLite(t)),
	} {
		s := onCallersPool(t, callersPool(t, d))
		rows := batch(700)
		if got, err := s.Insert(t.Context(), rows); err != nil || len(got) != 700 || present(t, s, rows...) != 700 {
			t.Errorf("%s: %v", name, err)
		}
		rows[0].Payload = []byte("other")
		if got, err := s.Insert(t.Context(), rows[:2]); err != nil || got[0] != model.StoredOther {
			t.Errorf("%s: got %v, %v, want other", name, got, err)
		}
		c, err := s.Claim(t.Context(), model.Claim{Service: "orders", Lease: hour, MaxRows: 1, MaxBytes: 1})
		if err != nil || len(c.Rows) != 0 { // none is due
			t.Errorf("%s: claimed %d, %v", name, len(c.Rows), err)
		}
		if n, err := s.Delete(t.Context(), []model.RowKey{{ID: rows[0].ID}}); err != nil || n != 1 {
			t.Errorf("%s: deleted %d, %v", name, n, err)
		}
	}
}

// TestNewLeavesSessionsAlone: the level is set per transaction.
func TestNewLeavesSessionsAlone(t *testing.T) {
	t.Parallel()
	db := callersPool(t, gormmysql.Open(dbtest.MySQL(t)+"?parseTime=true"))
	pool, err := db.DB()
	if err != nil {
		t.Fatal(err)
	}
	pool.SetMaxOpenConns(1)
	level := func() (text string) {
		if err := pool.QueryRowContext(t.Context(), "SELECT variable_value FROM "+
			sessionSchema(t, pool)+".session_variables "+
			"WHERE variable_name IN ('tx_isolation', 'transaction_isolation') LIMIT 1").Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := level()
	s := onCallersPool(t, db)
	if _, err := s.Insert(t.Context(), batch(700)); err != nil {
		t.Fatal(err)
	}
	c := model.Claim{Service: "orders", Lease: hour, MaxRows: 1, MaxBytes: 1}
	if _, err := s.Claim(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Delete(t.Context(), []model.RowKey{{ID: model.NewID()}}); err != nil {
		t.Fatal(err)
	}
	if after := level(); after != before || !strings.Contains(before, "REPEATABLE") {
		t.Errorf("level of the caller's session: before %q, after %q, want it unchanged", before, after)
	}
}

func TestNewChecksTheServerAndSchema(t *testing.T) {
	t.Parallel()
	db := callersPool(t, gormmysql.Open(dbtest.MySQL(t)))
	_, err := onPool(t.Context(), db, gormstore.Options{})
	if err == nil || !strings.Contains(err.Error(), "transmsg migrate up") {
		t.Errorf("without a schema: got %v", err)
	}
	lax := callersPool(t, gormmysql.Open(dbtest.MySQL(t)+"?sql_mode=%27%27"))
	if _, err := onPool(t.Context(), lax, gormstore.Options{}); err == nil || !strings.Contains(err.Error(), "STRICT") {
		t.Errorf("not strict: got %v", err)
	}
	if _, err := gormstore.Open(t.Context(), postgres.Gorm(db), gormstore.Options{}); err == nil ||
		!strings.Contains(err.Error(), "speaks mysql") {
		t.Errorf("a *gorm.DB of another dialect: got %v", err)
	}
	for name, src := range map[string]gormstore.Source{"zero": {}, "sql": mysql.SQL(nil), "gorm": mysql.Gorm(nil)} {
		if s, err := gormstore.Open(t.Context(), src, gormstore.Options{}); err == nil {
			t.Errorf("%s: a source without a database is accepted", name)
			_ = s.Close()
		}
	}
}
