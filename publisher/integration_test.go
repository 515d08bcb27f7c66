package publisher_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/libtnb/sqlite"
	amqp "github.com/rabbitmq/amqp091-go"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/internal/dbtest"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/publisher/gormtx"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
)

// stack is a publisher on real servers with an exchange `ex`, a queue `q1` bound with
// key `k`, and a full queue bound with `full` that rejects publishes.
type stack struct {
	pub    *publisher.Publisher
	store  *gormstore.Store
	sender *confirms.Sender
	broker *amqptest.Client
	dsn    string
	url    string // of the broker

	dialect string
}

func newStack(t *testing.T, dialect string) *stack {
	t.Helper()
	switch dialect {
	case "mysql":
		return newStackOn(t, dialect, dbtest.MySQL(t))
	case "postgres":
		return newStackOn(t, dialect, dbtest.Postgres(t))
	}
	return newStackOn(t, dialect, dbtest.SQLite(t))
}

// newStackOn is newStack on this database.
func newStackOn(t *testing.T, dialect, dsn string) *stack {
	t.Helper()
	s := &stack{dialect: dialect, dsn: dsn}
	storeDSN := dsn
	if dialect == "sqlite" {
		storeDSN = "sqlite:" + dsn
	}
	url := amqptest.VHost(t)
	s.url, s.broker = url, amqptest.Connect(t, url)
	must(t, s.broker.Exchange("ex", "direct", nil))
	must(t, s.broker.Queue(amqptest.QueueSpec{Name: "q1"}))
	must(t, s.broker.Bind("q1", "ex", "k"))
	must(t, s.broker.Queue(amqptest.QueueSpec{
		Name: "full", Args: amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"},
	}))
	must(t, s.broker.Bind("full", "ex", "full"))
	must(t, s.broker.Publish(t.Context(), "ex", "full", amqp.Publishing{Body: []byte("fill")}))

	migrated, err := anystore.Open(t.Context(), storeDSN, gormstore.Options{SkipSchemaCheck: true})
	must(t, err)
	_, err = migrations.Up(t.Context(), migrated)
	must(t, err)
	must(t, migrated.Close())
	s.store, err = anystore.Open(t.Context(), storeDSN, gormstore.Options{})
	must(t, err)
	cfg, err := confirms.ParseURL(url)
	must(t, err)
	sender, err := confirms.Open(cfg)
	must(t, err)
	must(t, sender.WaitReady(t.Context()))
	s.sender = sender
	s.pub, err = publisher.Open(publisher.Config{Service: "orders", Store: s.store, Sender: sender})
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := errors.Join(s.pub.Close(ctx), sender.Close(ctx), s.store.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// settled closes the publisher, so that every result is written, and returns the rows.
func (s *stack) settled(t *testing.T) map[string]model.TransMessage {
	t.Helper()
	must(t, s.pub.Close(t.Context()))
	rows, err := s.store.List(t.Context(), model.Filter{Limit: 10000})
	must(t, err)
	out := map[string]model.TransMessage{}
	for _, r := range rows {
		out[r.ID] = r
	}
	return out
}

func eachStore(t *testing.T, f func(*testing.T, *stack)) {
	for _, d := range []string{"mysql", "postgres", "sqlite"} {
		t.Run(d, func(t *testing.T) {
			t.Parallel()
			f(t, newStack(t, d))
		})
	}
}

func TestC07_EachRowKeepsItsOwnCause(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *stack) {
		want := map[string]model.Outcome{}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for w := range 16 {
			wg.Go(func() {
				for i := range 60 {
					key := []string{"k", "nope", "full"}[(w+i)%3]
					r, err := s.pub.Publish(t.Context(), msg(key))
					if err != nil {
						t.Errorf("publish to %s: %v", key, err)
						return
					}
					o, err := r.Wait(t.Context())
					if err != nil {
						t.Errorf("wait: %v", err)
						return
					}
					mu.Lock()
					want[r.ID()] = o
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		rows := s.settled(t)
		count := map[model.OutcomeKind]int{}
		for id, o := range want {
			count[o.Kind]++
			row, left := rows[id]
			if left != (o.Kind != model.Acked) {
				t.Errorf("%s: %v and left %v", id, o, left)
			}
			if left && (row.Status != model.Ready || row.LastCode != o.Code || row.Attempts != 1) {
				t.Errorf("%s: %v, but its row says %s %s after %d attempts",
					id, o, row.Status, row.LastCode, row.Attempts)
			}
		}
		if count[model.Acked] != 320 || count[model.Returned] != 320 || count[model.Nacked] != 320 {
			t.Errorf("outcomes %v, want 320 of each", count)
		}
		got, err := s.broker.Collect(t.Context(), "q1", 320)
		must(t, err)
		seen := map[string]bool{}
		for _, d := range got {
			if seen[d.MessageId] || want[d.MessageId].Kind != model.Acked || d.DeliveryMode != 2 {
				t.Errorf("%s: repeated, or not acked, or not persistent (%d)", d.MessageId, d.DeliveryMode)
			}
			seen[d.MessageId] = true
		}
	})
}

// C35: a caller's retry with the same id is one row and one message; other content is a
// conflict, and its neighbours in the same INSERT are not concerned.
func TestC35_SameIDIsOneMessage(t *testing.T) {
	t.Parallel()
	eachStore(t, func(t *testing.T, s *stack) {
		m := msg("nope") // stays stored
		m.ID = model.StableID("order-paid", "4711")
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				if _, err := s.pub.Publish(t.Context(), m); err != nil {
					t.Errorf("repeat: %v", err)
				}
				other := m
				other.Body = fmt.Appendf(nil, "other %d", i)
				if i > 0 { // the first content to arrive wins; only m may be first
					return
				}
				if _, err := s.pub.Publish(t.Context(), other); !errors.Is(err, model.ErrConflict) {
					t.Errorf("other content: %v, want ErrConflict", err)
				}
			})
			wg.Go(func() {
				if _, err := s.pub.Publish(t.Context(), msg("k")); err != nil {
					t.Errorf("neighbour: %v", err)
				}
			})
		}
		wg.Wait()
		rows := s.settled(t)
		if len(rows) != 1 || rows[m.ID].Attempts != 1 {
			t.Errorf("rows %v; want the one, sent once", rows)
		}
		if _, err := s.broker.Collect(t.Context(), "q1", 20); err != nil {
			t.Error(err)
		}
	})
}

// C38: nothing is sent for what did not commit, by database/sql and by gorm.
func TestC38_OnlyCommittedMessagesAreSent(t *testing.T) {
	t.Parallel()
	errUndo := errors.New("undo")
	for _, d := range []string{"mysql", "postgres"} {
		t.Run(d, func(t *testing.T) {
			t.Parallel()
			s := newStack(t, d)
			db, gdb := s.callersPool(t, d)
			ctx := t.Context()
			undo := func(ctx context.Context, _ *sql.Tx, out *publisher.Tx) error {
				return errors.Join(out.Publish(ctx, msg("k")), errUndo)
			}
			if err := publisher.InTx(ctx, s.pub, db, nil, undo); !errors.Is(err, errUndo) {
				t.Errorf("rolled back: %v, want the function's error", err)
			}
			keep := func(ctx context.Context, _ *sql.Tx, out *publisher.Tx) error {
				return out.Publish(ctx, msg("k"), msg("k"))
			}
			must(t, publisher.InTx(ctx, s.pub, db, nil, keep))
			nested := func(ctx context.Context, tx *gorm.DB, out *publisher.Tx) error {
				must(t, out.Publish(ctx, msg("k")))
				err := tx.Transaction(func(*gorm.DB) error {
					return errors.Join(out.Publish(ctx, msg("k")), errUndo)
				})
				if !errors.Is(err, errUndo) {
					return err
				}
				return nil
			}
			must(t, gormtx.Transaction(ctx, s.pub, gdb, nested))
			err := gormtx.Transaction(ctx, s.pub, gdb, func(ctx context.Context, tx *gorm.DB, _ *publisher.Tx) error {
				return gormtx.Transaction(ctx, s.pub, tx, nil)
			})
			if !errors.Is(err, gormtx.ErrNested) {
				t.Errorf("nested: %v, want ErrNested", err)
			}
			err = publisher.InTx(ctx, s.pub, db, nil, func(ctx context.Context, tx *sql.Tx, out *publisher.Tx) error {
				must(t, out.Publish(ctx, msg("k")))
				return tx.Rollback() // swallowed: the commit below fails, nothing is sent
			})
			if err == nil {
				t.Error("commit after a roll-back: nil error")
			}
			if rows := s.settled(t); len(rows) != 0 {
				t.Errorf("rows left: %v", rows)
			}
			got, err := s.broker.Collect(ctx, "q1", 3)
			must(t, err)
			if extra, err := s.broker.Drain("q1"); err != nil || len(extra) > 0 {
				t.Errorf("%d messages beyond the %d committed (%v)", len(extra), len(got), err)
			}
		})
	}
}

// callersPool is the service's own pool on the same database.
func (s *stack) callersPool(t *testing.T, dialect string) (*sql.DB, *gorm.DB) {
	t.Helper()
	var dial gorm.Dialector
	switch dialect {
	case "mysql":
		dial = mysql.Open(s.dsn)
	case "postgres":
		dial = postgres.Open(s.dsn)
	default:
		dial = sqlite.Open("file:" + s.dsn + "?_pragma=busy_timeout(10000)&_txlock=immediate")
	}
	gdb, err := gorm.Open(dial, &gorm.Config{Logger: logger.Discard})
	must(t, err)
	db, err := gdb.DB()
	must(t, err)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close the caller's pool: %v", err)
		}
	})
	return db, gdb
}

// C34: a deadlock that the business code swallows has undone the whole transaction; the
// commit that follows returns nil, and nothing may be sent.
func TestC34_SwallowedDeadlockSendsNothing(t *testing.T) {
	t.Parallel()
	s := newStack(t, "mysql")
	db, _ := s.callersPool(t, "mysql")
	ctx := t.Context()
	_, err := db.ExecContext(ctx, "CREATE TABLE business (id INT PRIMARY KEY, n INT NOT NULL) ENGINE=InnoDB")
	must(t, err)
	_, err = db.ExecContext(ctx, "INSERT INTO business VALUES (1, 0), (2, 0)")
	must(t, err)
	m := msg("k")
	err = publisher.InTx(ctx, s.pub, db, nil, func(ctx context.Context, tx *sql.Tx, out *publisher.Tx) error {
		must(t, out.Publish(ctx, m))
		return deadlock(ctx, t, db, tx)
	})
	if !errors.Is(err, model.ErrRowsMissing) {
		t.Errorf("got %v, want ErrRowsMissing", err)
	}
	if rows := s.settled(t); len(rows) != 0 {
		t.Errorf("rows left: %v", rows)
	}
	if got, err := s.broker.Drain("q1"); err != nil || len(got) > 0 {
		t.Errorf("%d messages sent (%v), want none", len(got), err)
	}
}

// deadlock makes tx the victim of a deadlock and swallows its error.
func deadlock(ctx context.Context, t *testing.T, db *sql.DB, tx *sql.Tx) error {
	t.Helper()
	rival, err := db.BeginTx(ctx, nil)
	must(t, err)
	// The rival has changed more rows: InnoDB rolls back the lighter transaction.
	_, err = rival.ExecContext(ctx, "INSERT INTO business WITH RECURSIVE s (n) AS "+
		"(SELECT 100 UNION ALL SELECT n + 1 FROM s WHERE n < 400) SELECT n, 0 FROM s")
	must(t, err)
	_, err = rival.ExecContext(ctx, "UPDATE business SET n = 1 WHERE id = 2")
	must(t, err)
	_, err = tx.ExecContext(ctx, "UPDATE business SET n = 2 WHERE id = 1")
	must(t, err)
	done := make(chan error, 1)
	go func() {
		_, err := rival.ExecContext(ctx, "UPDATE business SET n = 1 WHERE id = 1")
		done <- err
	}()
	_, err = tx.ExecContext(ctx, "UPDATE business SET n = 2 WHERE id = 2")
	if err == nil {
		t.Error("no deadlock for our side: the test does not bite")
	}
	if rivalErr := <-done; rivalErr != nil {
		t.Errorf("the rival was the victim: %v", rivalErr)
	}
	must(t, rival.Rollback())
	return nil
}
