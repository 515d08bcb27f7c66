package publisher_test

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/publisher/gormtx"
)

// H1 to H4: what a handler gets wrong most often. Each test runs on the three databases, by
// database/sql and by gorm, with a business table: an order and its message exist both or
// not at all.

// shop is a service's own table beside the messages.
type shop struct {
	*stack
	db  *sql.DB
	gdb *gorm.DB
}

// open is a transaction by one of the two wrappers.
type openTx struct {
	out   *publisher.Tx
	order func(ctx context.Context, id string) error
	// nested runs fn in a savepoint, by the wrapper's own means.
	nested func(ctx context.Context, fn func() error) error
}

// run is InTx or gormtx.Transaction around fn.
type run func(ctx context.Context, fn func(ctx context.Context, tx openTx) error) error

func eachWrapper(t *testing.T, f func(t *testing.T, s *shop, in run)) {
	t.Helper()
	eachStore(t, func(t *testing.T, s *stack) {
		db, gdb := s.callersPool(t, s.dialect)
		_, err := db.ExecContext(t.Context(), "CREATE TABLE orders (id VARCHAR(36) PRIMARY KEY)")
		must(t, err)
		shop := &shop{stack: s, db: db, gdb: gdb}
		t.Run("sql", func(t *testing.T) { f(t, shop, shop.inTx) })
		t.Run("gorm", func(t *testing.T) { f(t, shop, shop.transaction) })
	})
}

func (s *shop) insert() string {
	if s.dialect == "postgres" {
		return "INSERT INTO orders VALUES ($1)"
	}
	return "INSERT INTO orders VALUES (?)"
}

func (s *shop) inTx(ctx context.Context, fn func(context.Context, openTx) error) error {
	return publisher.InTx(ctx, s.pub, s.db, nil, func(ctx context.Context, tx *sql.Tx, out *publisher.Tx) error {
		return fn(ctx, openTx{
			out: out,
			order: func(ctx context.Context, id string) error {
				_, err := tx.ExecContext(ctx, s.insert(), id)
				return err
			},
			nested: out.Savepoint,
		})
	})
}

func (s *shop) transaction(ctx context.Context, fn func(context.Context, openTx) error) error {
	return gormtx.Transaction(ctx, s.pub, s.gdb, func(ctx context.Context, tx *gorm.DB, out *publisher.Tx) error {
		return fn(ctx, openTx{
			out: out,
			order: func(ctx context.Context, id string) error {
				return tx.WithContext(ctx).Exec("INSERT INTO orders VALUES (?)", id).Error
			},
			nested: func(_ context.Context, fn func() error) error {
				return tx.Transaction(func(*gorm.DB) error { return fn() })
			},
		})
	})
}

// count returns how many orders and how many messages (stored or sent to q1) there are of id.
func (s *shop) want(t *testing.T, m model.Message, orders int) {
	t.Helper()
	n := 0
	must(t, s.db.QueryRowContext(t.Context(), strings.Replace(
		s.insert(), "INSERT INTO orders VALUES (", "SELECT COUNT(*) FROM orders WHERE id IN (", 1), m.ID).Scan(&n))
	if n != orders {
		t.Errorf("%d orders, want %d", n, orders)
	}
}

// arrived drains the queue and returns the ids of what came to it.
func (s *shop) arrived(t *testing.T, n int) map[string]int {
	t.Helper()
	got, err := s.broker.Collect(t.Context(), "q1", n)
	must(t, err)
	extra, err := s.broker.Drain("q1")
	must(t, err)
	ids := map[string]int{}
	for _, d := range append(got, extra...) {
		ids[d.MessageId]++
	}
	return ids
}

func withID(key string) model.Message {
	m := msg(key)
	m.ID = model.NewID()
	return m
}

// bad is a message that Publish refuses.
func bad() model.Message { return model.Message{Exchange: "ex\r", RoutingKey: "k"} }

func TestH1_AFailedPublishRefusesTheCommit(t *testing.T) {
	t.Parallel()
	eachWrapper(t, func(t *testing.T, s *shop, in run) {
		m := withID("k")
		err := in(t.Context(), func(ctx context.Context, tx openTx) error {
			must(t, tx.order(ctx, m.ID))
			must(t, tx.out.Publish(ctx, m))
			_ = tx.out.Publish(ctx, bad()) // dropped
			return nil
		})
		if !errors.Is(err, model.ErrNotStored) || !errors.Is(err, model.ErrInvalid) ||
			!strings.Contains(err.Error(), "Tx.Publish at handler_test.go:") {
			t.Errorf("got %v, want ErrNotStored that names the call and the cause", err)
		}
		s.want(t, m, 0)
		if ids := s.arrived(t, 0); len(ids) != 0 {
			t.Errorf("arrived: %v", ids)
		}
	})
}

func TestH1_TryPublishGoesOnWithout(t *testing.T) {
	t.Parallel()
	eachWrapper(t, func(t *testing.T, s *shop, in run) {
		m, stored := withID("k"), withID("nope")
		_, err := s.pub.Publish(t.Context(), stored)
		must(t, err)
		other := stored
		other.Body = []byte("other content")
		must(t, in(t.Context(), func(ctx context.Context, tx openTx) error {
			must(t, tx.order(ctx, m.ID))
			if err := tx.out.TryPublish(ctx, bad()); !errors.Is(err, model.ErrInvalid) {
				t.Errorf("got %v, want ErrInvalid", err)
			}
			// Refused by the database: the savepoint keeps the transaction usable.
			if err := tx.out.TryPublish(ctx, withID("k"), other); err == nil {
				t.Error("a used id was published again with other content")
			}
			return tx.out.Publish(ctx, m)
		}))
		s.want(t, m, 1)
		if ids := s.arrived(t, 1); len(ids) != 1 || ids[m.ID] != 1 {
			t.Errorf("arrived: %v, want the order's message once", ids)
		}
	})
}

func TestH1_SavepointRolledBackThenPublishedAgain(t *testing.T) {
	t.Parallel()
	errUndo := errors.New("undo")
	eachWrapper(t, func(t *testing.T, s *shop, in run) {
		m, undone := withID("k"), withID("k")
		must(t, in(t.Context(), func(ctx context.Context, tx openTx) error {
			must(t, tx.order(ctx, m.ID))
			err := tx.nested(ctx, func() error {
				must(t, tx.out.Publish(ctx, undone))
				_ = tx.out.Publish(ctx, bad())
				return errUndo
			})
			if !errors.Is(err, errUndo) {
				t.Errorf("got %v, want the function's error", err)
			}
			return tx.out.Publish(ctx, m)
		}))
		s.want(t, m, 1)
		if ids := s.arrived(t, 1); len(ids) != 1 || ids[m.ID] != 1 {
			t.Errorf("arrived: %v, want the second message alone", ids)
		}
		// The same in a savepoint that is kept counts.
		lost := withID("k")
		err := in(t.Context(), func(ctx context.Context, tx openTx) error {
			must(t, tx.order(ctx, lost.ID))
			must(t, tx.nested(ctx, func() error { _ = tx.out.Publish(ctx, bad()); return nil }))
			return tx.out.Publish(ctx, lost)
		})
		if !errors.Is(err, model.ErrNotStored) {
			t.Errorf("got %v, want ErrNotStored", err)
		}
		s.want(t, lost, 0)
	})
}

func TestH2_CallsOutsideTheOpenTransactionAreRefused(t *testing.T) {
	t.Parallel()
	eachWrapper(t, func(t *testing.T, s *shop, in run) {
		for name, call := range map[string]func(ctx context.Context) error{
			"Publish": func(ctx context.Context) error { _, err := s.pub.Publish(ctx, msg("k")); return err },
			"PublishBatch": func(ctx context.Context) error {
				_, err := s.pub.PublishBatch(ctx, []model.Message{msg("k")})
				return err
			},
			"InTx":        func(ctx context.Context) error { return s.inTx(ctx, nothing) },
			"Transaction": func(ctx context.Context) error { return s.transaction(ctx, nothing) },
		} {
			m := withID("k")
			err := in(t.Context(), func(ctx context.Context, tx openTx) error {
				must(t, tx.order(ctx, m.ID))
				must(t, tx.out.Publish(ctx, m))
				if err := call(ctx); !errors.Is(err, publisher.ErrInTx) {
					t.Errorf("%s: got %v, want ErrInTx", name, err)
				}
				return nil
			})
			if !errors.Is(err, publisher.ErrInTx) || !errors.Is(err, model.ErrNotStored) {
				t.Errorf("%s: the commit gave %v, want ErrNotStored and ErrInTx", name, err)
			}
			s.want(t, m, 0)
		}
		if ids := s.arrived(t, 0); len(ids) != 0 {
			t.Errorf("arrived: %v", ids)
		}
	})
}

func nothing(context.Context, openTx) error { return nil }

// Who means it says so; and a context whose transaction has ended refuses nothing.
func TestH2_OutsideTxIsForThoseWhoMeanIt(t *testing.T) {
	t.Parallel()
	for _, d := range []string{"mysql", "postgres"} { // SQLite has one writer at a time
		s := newStack(t, d)
		db, _ := s.callersPool(t, d)
		var leaked context.Context
		errUndo := errors.New("undo")
		err := publisher.InTx(t.Context(), s.pub, db, nil,
			func(ctx context.Context, _ *sql.Tx, out *publisher.Tx) error {
				leaked = ctx
				must(t, out.Publish(ctx, msg("k")))
				_, err := s.pub.Publish(publisher.OutsideTx(ctx), msg("k"))
				return errors.Join(err, errUndo)
			})
		if !errors.Is(err, errUndo) {
			t.Fatal(err)
		}
		_, err = s.pub.Publish(leaked, msg("k"))
		must(t, err)
		if _, err := s.broker.Collect(t.Context(), "q1", 2); err != nil {
			t.Error(err)
		}
		if extra, err := s.broker.Drain("q1"); err != nil || len(extra) > 0 {
			t.Errorf("%d messages of a transaction that was rolled back (%v)", len(extra), err)
		}
	}
}

func TestH2_GuardRefusesTheOuterHandle(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *stack) {
		_, gdb := s.callersPool(t, s.dialect)
		must(t, gdb.Exec("CREATE TABLE orders (id VARCHAR(36) PRIMARY KEY)").Error)
		must(t, gdb.Use(gormtx.Guard{}))
		err := gormtx.Transaction(t.Context(), s.pub, gdb,
			func(ctx context.Context, tx *gorm.DB, out *publisher.Tx) error {
				must(t, tx.Exec("INSERT INTO orders VALUES ('inside')").Error)
				must(t, out.Publish(ctx, msg("k")))
				if err := gdb.WithContext(ctx).Exec("INSERT INTO orders VALUES ('outside')").Error; !errors.Is(
					err, publisher.ErrInTx) {
					t.Errorf("got %v, want ErrInTx", err)
				}
				return nil
			})
		if !errors.Is(err, publisher.ErrInTx) {
			t.Errorf("the commit gave %v, want ErrInTx", err)
		}
		var n int64
		must(t, gdb.Table("orders").Count(&n).Error)
		if n != 0 {
			t.Errorf("%d orders, want none", n)
		}
	})
}

func TestH3_AContextThatEndsBeforeTheCommit(t *testing.T) {
	t.Parallel()
	eachWrapper(t, func(t *testing.T, s *shop, in run) {
		m := withID("k")
		ctx, cancel := context.WithCancel(t.Context())
		err := in(ctx, func(ctx context.Context, tx openTx) error {
			must(t, tx.order(ctx, m.ID))
			must(t, tx.out.Publish(ctx, m))
			cancel()
			return nil
		})
		if !errors.Is(err, model.ErrNotStored) || !errors.Is(err, context.Canceled) ||
			!strings.Contains(err.Error(), "the context ended before the commit") {
			t.Errorf("got %v, want ErrNotStored that says that the context ended", err)
		}
		s.want(t, m, 0)
		if ids := s.arrived(t, 0); len(ids) != 0 {
			t.Errorf("arrived: %v", ids)
		}
	})
}

// The handle's own Commit inside InTx: what happened is said, not "already committed or
// rolled back".
func TestH3_TheHandlesOwnCommitIsTold(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *stack) {
		db, _ := s.callersPool(t, s.dialect)
		err := publisher.InTx(t.Context(), s.pub, db, nil,
			func(ctx context.Context, tx *sql.Tx, out *publisher.Tx) error {
				return errors.Join(out.Publish(ctx, msg("k")), tx.Commit())
			})
		if !errors.Is(err, model.ErrStoreUnknown) || !strings.Contains(err.Error(), "own Commit") {
			t.Errorf("got %v, want ErrStoreUnknown that names the own Commit", err)
		}
		if rows := s.settled(t); len(rows) != 1 {
			t.Errorf("%d rows, want the one, for a compensator", len(rows))
		}
	})
}

func TestH4_WhatWasNotMadeNamesItsConstructor(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := open(t, newMemStore(), &fakeSender{answer: acked}, nil)
	defer closeNow(t, p)
	var (
		noPub *publisher.Publisher
		noTx  *publisher.Tx
		noSQL *sql.Tx
		noDB  *sql.DB
	)
	in := func(context.Context, *sql.Tx, *publisher.Tx) error { return nil }
	inGorm := func(context.Context, *gorm.DB, *publisher.Tx) error { return nil }
	one := func(_ any, err error) error { return err }
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"nil Publisher":        {one(noPub.Publish(ctx, msg("k"))), "publisher.Open"},
		"nil Publisher, batch": {one(noPub.PublishBatch(ctx, nil)), "publisher.Open"},
		"nil Publisher, Close": {noPub.Close(ctx), "publisher.Open"},
		"zero Publisher":       {one((&publisher.Publisher{}).Publish(ctx, msg("k"))), "publisher.Open"},
		"nil Publisher's Tx":   {noPub.Tx(&fakeTx{}).Publish(ctx, msg("k")), "publisher.Open"},
		"nil Publisher, InTx":  {publisher.InTx(ctx, noPub, noDB, nil, in), "publisher.Open"},
		"nil DB":               {publisher.InTx(ctx, p, noDB, nil, in), "sql.Open"},
		"nil function":         {publisher.InTx(ctx, p, &sql.DB{}, nil, nil), "function"},
		"zero Tx":              {(&publisher.Tx{}).Publish(ctx, msg("k")), "publisher.InTx"},
		"zero Tx, Try":         {(&publisher.Tx{}).TryPublish(ctx, msg("k")), "publisher.InTx"},
		"zero Tx, Commit":      {one((&publisher.Tx{}).Commit(ctx, done)), "publisher.InTx"},
		"zero Tx, Savepoint":   {(&publisher.Tx{}).Savepoint(ctx, done), "publisher.InTx"},
		"nil Tx":               {noTx.Publish(ctx, msg("k")), "publisher.InTx"},
		"nil Tx, Commit":       {one(noTx.Commit(ctx, done)), "publisher.InTx"},
		"nil handle":           {p.Tx(nil).Publish(ctx, msg("k")), "BeginTx"},
		"nil *sql.Tx":          {p.Tx(noSQL).Publish(ctx, msg("k")), "BeginTx"},
		"nil commit":           {one(p.Tx(&fakeTx{}).Commit(ctx, nil)), "tx.Commit"},
		"nil Receipt":          {(*publisher.Receipt)(nil).Err(ctx), "Receipt"},
		"zero Receipt":         {(&publisher.Receipt{}).Err(ctx), "Receipt"},
		"nil gorm":             {gormtx.Transaction(ctx, p, nil, inGorm), "gorm.Open"},
		"zero gorm":            {gormtx.Transaction(ctx, p, &gorm.DB{}, inGorm), "gorm.Open"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error that names %s", name, c.err, c.want)
		}
	}
	noTx.RolledBackTo(noTx.Mark())
	noTx.Refuse(errDown)
	if noPub.Stats() != (publisher.Stats{}) || publisher.TxFrom(ctx) != nil {
		t.Error("a nil Publisher has figures, or a context without a transaction has one")
	}
}

func TestH4_NowhereIsRefused(t *testing.T) {
	t.Parallel()
	p := open(t, newMemStore(), &fakeSender{answer: acked}, nil)
	defer closeNow(t, p)
	for _, unroutable := range []bool{false, true} {
		_, err := p.Publish(t.Context(), model.Message{Body: []byte("x"), AllowUnroutable: unroutable})
		if !errors.Is(err, model.ErrInvalid) {
			t.Errorf("got %v, want ErrInvalid for neither exchange nor routing key", err)
		}
	}
	if _, err := p.Publish(t.Context(), model.Message{RoutingKey: "queue"}); err != nil {
		t.Errorf("the default exchange: %v", err)
	}
	if _, err := p.Publish(t.Context(), model.Message{Exchange: "fanout"}); err != nil {
		t.Errorf("an empty routing key: %v", err)
	}
}
