package gormeffect_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"gorm.io/gorm"

	mysqldriver "gorm.io/driver/mysql"
	pgdriver "gorm.io/driver/postgres"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/consumer/effect"
	"github.com/transmsg/transmsg/consumer/gormeffect"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/store/gormstore"
)

var errHandler = errors.New("no funds")

type row struct{ Message string }

func (row) TableName() string { return "effects" }

// TestOneEffect: on both servers, with and without gorm's prepared statements.
func TestOneEffect(t *testing.T) {
	t.Parallel()
	for _, prepared := range []bool{false, true} {
		for name, open := range map[string]func() (string, gorm.Dialector){
			"mysql":    func() (string, gorm.Dialector) { dsn := dbtest.MySQL(t); return dsn, mysqldriver.Open(dsn) },
			"postgres": func() (string, gorm.Dialector) { dsn := dbtest.Postgres(t); return dsn, pgdriver.Open(dsn) },
		} {
			dsn, dialector := open()
			store, err := anystore.Migrated(t.Context(), dsn, gormstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			db, err := gorm.Open(dialector, &gorm.Config{PrepareStmt: prepared})
			if err != nil {
				t.Fatal(err)
			}
			pool, err := db.DB()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = errors.Join(pool.Close(), store.Close()) })
			t.Run(name, func(t *testing.T) { oneEffect(t, store, db) })
		}
	}
}

func oneEffect(t *testing.T, store *gormstore.Store, db *gorm.DB) {
	if err := db.Exec("CREATE TABLE effects (message VARCHAR(64) NOT NULL)").Error; err != nil {
		t.Fatal(err)
	}
	once, err := effect.New(effect.Config{Consumer: "payments", Store: store, Wait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	var fail error
	h := gormeffect.InTx(once, db, func(_ context.Context, tx *gorm.DB, _ *publisher.Tx, m *consumer.Message) error {
		return errors.Join(tx.Create(&row{m.ID}).Error, fail)
	})
	fail = errHandler
	if err := h(t.Context(), &consumer.Message{ID: "x"}); !errors.Is(err, errHandler) {
		t.Errorf("got %v, want the handler's error", err)
	}
	fail = nil
	if err := h(t.Context(), &consumer.Message{ID: "x"}); err != nil {
		t.Error(err)
	}
	if err := h(t.Context(), &consumer.Message{ID: "x"}); !consumer.IsSkipped(err) {
		t.Errorf("the second delivery got %v, want it skipped", err)
	}
	var n int64
	if err := db.Model(&row{}).Count(&n).Error; err != nil || n != 1 {
		t.Errorf("%d effects, %v, want 1", n, err)
	}
}
