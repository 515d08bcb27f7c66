package bench

import (
	"context"
	"database/sql"
	"errors"
	"testing"

	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// BenchmarkTransaction is the transaction of the tx workload on MySQL, and what it costs with
// one statement more: one that does nothing, one that inserts a second small row, one that
// inserts an id and 1 KiB, the product's InsertTx, and with that the read-back. Nothing is sent.
func BenchmarkTransaction(b *testing.B) {
	ctx := context.Background()
	sc, store := benchSchema(b)
	bus, err := openBusiness(ctx, sc)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = bus.close() })
	if _, err := bus.db.ExecContext(ctx, "CREATE TABLE bench_blobs "+
		"(id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, body BLOB NOT NULL)"); err != nil {
		b.Fatal(err)
	}
	body := make([]byte, DefaultBody)
	one := func(id string) []model.Draft {
		m := message("exchange", body)
		m.ID = id
		return []model.Draft{{TransMessage: model.NewTransMessage(service, &m, false)}}
	}
	for _, more := range []struct {
		name  string
		exec  func(tx *sql.Tx, id string) error
		after func(id string) error
	}{
		{name: "alone"},
		{name: "nothing", exec: func(tx *sql.Tx, _ string) error {
			_, err := tx.ExecContext(ctx, "DO 1")
			return err
		}},
		{name: "small-row", exec: func(tx *sql.Tx, _ string) error { return addOrder(ctx, tx, sc.Kind) }},
		{name: "1KiB-row", exec: func(tx *sql.Tx, id string) error {
			_, err := tx.ExecContext(ctx, "INSERT INTO bench_blobs (id, body) VALUES (?,?)", id, body)
			return err
		}},
		{name: "InsertTx", exec: func(tx *sql.Tx, id string) error {
			_, err := store.InsertTx(ctx, tx, one(id), nil)
			return err
		}},
		{
			name: "InsertTx-and-read-back",
			exec: func(tx *sql.Tx, id string) error { _, err := store.InsertTx(ctx, tx, one(id), nil); return err },
			after: func(id string) error {
				found, err := store.ReadBack(ctx, []string{id})
				if err == nil && len(found) != 1 {
					err = errors.New("the row is not there")
				}
				return err
			},
		},
	} {
		b.Run(more.name, func(b *testing.B) {
			err := concurrently(txCallers, b.N, func() error {
				id := model.NewID()
				tx, err := bus.db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				err = addOrder(ctx, tx, sc.Kind)
				if err == nil && more.exec != nil {
					err = more.exec(tx, id)
				}
				if err != nil {
					return errors.Join(err, tx.Rollback())
				}
				if err = tx.Commit(); err == nil && more.after != nil {
					err = more.after(id)
				}
				return err
			})
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

// benchSchema is a schema of its own on the shared server, with the product's tables.
func benchSchema(b *testing.B) (*Schema, *gormstore.Store) {
	b.Helper()
	ctx := context.Background()
	srv, err := parseServer(dbtest.MySQL(b))
	if err != nil {
		b.Fatal(err)
	}
	sc, err := srv.newSchema(ctx)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sc.close(context.Background()) })
	store, err := anystore.Open(ctx, sc.DSN, gormstore.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	return sc, store
}
