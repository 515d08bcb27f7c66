package gormstore_test

import (
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
)

// Rows of a long transaction are leased anew before its commit, through its own handle on
// each kind of server.
func TestExtendTxLeasesTheTransactionsRows(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]string{
		"mysql": dbtest.MySQL(t), "postgres": dbtest.Postgres(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := anystore.Open(t.Context(), dsn, gormstore.Options{SkipSchemaCheck: true})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = s.Close() })
			if _, err := migrations.Up(t.Context(), s); err != nil {
				t.Fatal(err)
			}
			m := model.Message{ID: model.NewID(), Exchange: "ex", RoutingKey: "k"}
			draft := model.Draft{TransMessage: model.NewTransMessage("orders", &m, false)} // due now
			tx, err := s.Pool().BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			if err := insertTx(t, s, tx, draft); err != nil {
				t.Fatal(err)
			}
			n, err := s.ExtendTx(t.Context(), tx, []string{m.ID, model.NewID()}, time.Hour)
			if err != nil || n != 1 {
				t.Fatalf("extended %d rows, %v; want the one that exists", n, err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			states, err := s.ReadBack(t.Context(), []string{m.ID})
			if err != nil || states[m.ID].LeaseLeft < 50*time.Minute || states[m.ID].Version != 0 {
				t.Errorf("got %+v, %v; want an hour's lease at version 0", states, err)
			}
		})
	}
}
