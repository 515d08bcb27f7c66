package postgres_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
	"github.com/transmsg/transmsg/store/postgres"
)

// TestACommitThatGaveUpItsStandbyIsUnknown: the wait for a synchronous standby is cancelled.
// The server says success with a warning, and a fail-over may lose the row.
func TestACommitThatGaveUpItsStandbyIsUnknown(t *testing.T) {
	t.Parallel()
	server := dbtest.StartPostgres(t)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	name, err := server.NewDatabase(t.Context())
	must(err)
	store, err := gormstore.Open(t.Context(), postgres.DSN(server.DSN(name)), gormstore.Options{SkipSchemaCheck: true})
	must(err)
	t.Cleanup(func() { _ = store.Close() })
	_, err = migrations.Up(t.Context(), store)
	must(err)
	must(server.Exec(t.Context(), "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"))
	m, err := model.Normalize(model.Message{Exchange: "ex", RoutingKey: "k"}, time.Now(), model.Limits{})
	must(err)
	db, err := sql.Open("pgx", server.DSN(name))
	must(err)
	defer db.Close()
	stored, cancelled := 0, 0
	for deadline := time.Now().Add(time.Minute); cancelled == 0; stored++ { // the setting takes a moment
		if time.Now().After(deadline) {
			t.Fatal("no commit waits for the standby: the test does not bite")
		}
		m.ID = model.NewID()
		done := make(chan error, 1)
		go func() {
			_, err := store.Insert(t.Context(), []model.Draft{
				{TransMessage: model.NewTransMessage("orders", &m, true)},
			})
			done <- err
		}()
		for ended := false; !ended; {
			var n int
			must(db.QueryRowContext(t.Context(), "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity "+
				"WHERE wait_event = 'SyncRep'").Scan(&n))
			cancelled += n
			select {
			case err = <-done:
				ended = true
			case <-time.After(20 * time.Millisecond): // the interval of the poll
			}
		}
	}
	if !errors.Is(err, model.ErrStoreUnknown) {
		t.Errorf("got %v, want ErrStoreUnknown", err)
	}
	must(server.Exec(t.Context(), "ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"))
	rows, err := store.List(t.Context(), model.Filter{})
	if err != nil || len(rows) != stored {
		t.Errorf("%d rows, %v: want %d, the last of which was committed here alone", len(rows), err, stored)
	}
}
