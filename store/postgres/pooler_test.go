package postgres_test

import (
	"database/sql"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
	"github.com/transmsg/transmsg/store/postgres"
)

// TestAPoolerKeepsItsSessionsOrIsRefused: through PgBouncer in session mode a store works. In
// transaction mode neither an own pool nor a caller's is taken, no setting of ours is left with the
// sessions of others, and a caller's transaction stores its messages all the same.
func TestAPoolerKeepsItsSessionsOrIsRefused(t *testing.T) {
	t.Parallel()
	server := dbtest.StartPostgres(t)
	name, err := server.NewDatabase(t.Context())
	must(t, err)
	direct, err := gormstore.Open(t.Context(), postgres.DSN(server.DSN(name)), gormstore.Options{SkipSchemaCheck: true})
	must(t, err)
	t.Cleanup(func() { _ = direct.Close() })

	session := dbtest.StartPgBouncer(t, server.Addr(), "session")
	store, err := gormstore.Open(t.Context(), postgres.DSN(session.PostgresDSN(name)),
		gormstore.Options{SkipSchemaCheck: true})
	must(t, err)
	_, err = migrations.Up(t.Context(), store)
	must(t, err)
	_, err = store.Insert(t.Context(), []model.Draft{draft(t)})
	must(t, err)
	claimed, err := store.Claim(t.Context(), model.Claim{
		Service: "orders", Instance: "c", MaxRows: 10, MaxBytes: 1 << 20, Lease: time.Minute,
	})
	must(t, err)
	if len(claimed.Rows) != 1 {
		t.Errorf("claimed %d rows through session pooling, want 1", len(claimed.Rows))
	}
	must(t, store.Close())

	shared := dbtest.StartPgBouncer(t, server.Addr(), "transaction")
	pool, err := sql.Open("pgx", shared.PostgresDSN(name)+"&default_query_exec_mode=exec")
	must(t, err)
	t.Cleanup(func() { _ = pool.Close() })
	for what, src := range map[string]gormstore.Source{
		"own pool": postgres.DSN(shared.PostgresDSN(name)), "caller's pool": postgres.SQL(pool),
	} {
		s, err := gormstore.Open(t.Context(), src, gormstore.Options{})
		if err == nil {
			_ = s.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "pool_mode = session") {
			t.Errorf("%s through transaction pooling: %v, want a refusal that names pool_mode", what, err)
		}
	}
	var wait string
	must(t, pool.QueryRowContext(t.Context(), "SELECT current_setting('lock_timeout')").Scan(&wait))
	if wait != "0" {
		t.Errorf("lock_timeout of a session of the pooler is %s, want the server's own 0", wait)
	}

	tx, err := pool.BeginTx(t.Context(), nil)
	must(t, err)
	_, err = direct.InsertTx(t.Context(), tx, []model.Draft{draft(t)}, nil)
	must(t, err)
	must(t, tx.Commit())
}

func draft(t *testing.T) model.Draft {
	t.Helper()
	m, err := model.Normalize(model.Message{Exchange: "ex", RoutingKey: "k"}, time.Now(), model.Limits{})
	must(t, err)
	m.ID = model.NewID()
	return model.Draft{TransMessage: model.NewTransMessage("orders", &m, true)}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
