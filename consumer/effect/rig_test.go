package effect_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // registers "mysql"
	"go.uber.org/goleak"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/consumer/effect"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/store/gormstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is one test's database with a table of effects without a unique key.
type rig struct {
	dialect string
	dsn     string
	store   *gormstore.Store
	db      *sql.DB
}

// each runs a test on MariaDB and PostgreSQL.
func each(t *testing.T, test func(*testing.T, *rig)) {
	t.Helper()
	for dialect, fresh := range map[string]func(dbtest.TB) string{"mysql": dbtest.MySQL, "pgx": dbtest.Postgres} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			test(t, newRig(t, dialect, fresh(t)))
		})
	}
}

func newRig(t *testing.T, dialect, dsn string) *rig {
	t.Helper()
	store, err := anystore.Migrated(t.Context(), dsn, gormstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open(dialect, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(db.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	})
	r := &rig{dialect: dialect, dsn: dsn, store: store, db: db}
	r.exec(t, "CREATE TABLE effects (message VARCHAR(64) NOT NULL)")
	r.exec(t, "CREATE TABLE accounts (id INT PRIMARY KEY, total INT NOT NULL)")
	r.exec(t, "INSERT INTO accounts VALUES (1, 0), (2, 0)")
	return r
}

func (r *rig) exec(t *testing.T, query string) {
	t.Helper()
	if _, err := r.db.ExecContext(t.Context(), query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func (r *rig) count(t *testing.T, query string) (n int) {
	t.Helper()
	if err := r.db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

func (r *rig) effects(t *testing.T) int { return r.count(t, "SELECT COUNT(*) FROM effects") }

func (r *rig) once(t *testing.T, edit ...func(*effect.Config)) *effect.Once {
	t.Helper()
	cfg := effect.Config{Consumer: "payments", Store: r.store, Wait: time.Second}
	for _, f := range edit {
		f(&cfg)
	}
	once, err := effect.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return once
}

// insert is the effect of these tests.
func insert(ctx context.Context, tx *sql.Tx, m *consumer.Message) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO effects (message) VALUES ('"+fmt.Sprintf("%x", m.ID)+"')")
	return err
}

// handler has its effect, and then does what more says.
func (r *rig) handler(once *effect.Once, more func(ctx context.Context, tx *sql.Tx) error) consumer.Handler {
	return once.InTx(r.db, nil, func(ctx context.Context, tx *sql.Tx, _ *publisher.Tx, m *consumer.Message) error {
		if err := insert(ctx, tx, m); err != nil || more == nil {
			return err
		}
		return more(ctx, tx)
	})
}

func message(id string) *consumer.Message { return &consumer.Message{Queue: "pay", ID: id, Attempt: 1} }

func (r *rig) done(t *testing.T, id string) bool {
	t.Helper()
	done, err := r.store.Recorded(t.Context(), model.InboxRecord{Consumer: "payments", Key: []byte(id)})
	if err != nil {
		t.Fatal(err)
	}
	return done
}

// kind names an answer.
func kind(err error) string {
	switch {
	case err == nil:
		return "nil"
	case consumer.IsSkipped(err):
		return "skipped"
	case consumer.IsBusy(err):
		return "busy"
	case consumer.IsUnavailable(err):
		return "unavailable"
	case consumer.IsPermanent(err):
		return "permanent"
	}
	return "failed"
}
