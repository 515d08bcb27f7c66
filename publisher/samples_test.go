package publisher_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

// The samples of pools-and-transactions.md and consume.md do what the pages say:
// an order is placed, its message arrives and is handled once, a transaction by hand and one
// that fails.
func TestSamplesOfPagesRun(t *testing.T) {
	t.Parallel()
	s := newStack(t, "mysql")
	ctx := t.Context()
	db, err := sql.Open("mysql", s.dsn)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	for _, table := range []string{
		"CREATE TABLE orders (number VARCHAR(20) PRIMARY KEY, amount INT NOT NULL)",
		"CREATE TABLE handled (id CHAR(36) PRIMARY KEY, at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)",
	} {
		_, err := db.ExecContext(ctx, table)
		must(t, err)
	}
	must(t, s.broker.Exchange("orders", "topic", nil))
	must(t, s.broker.Bind("q1", "orders", "order.*"))
	must(t, waitForBroker(ctx, s.sender))

	must(t, placeOrder(ctx, db, s.pub, Order{Number: "4711", Amount: 1999}))
	must(t, cancelOrder(ctx, db, s.pub, "4711"))
	must(t, placeOrder(ctx, db, s.pub, Order{Number: "4711", Amount: 1}))
	if placeOrder(ctx, db, s.pub, Order{Number: "4711", Amount: 2}) == nil {
		t.Error("a number that is taken was placed")
	}
	got, err := s.broker.Collect(ctx, "q1", 3)
	must(t, err)
	if more, err := s.broker.Drain("q1"); err != nil || len(more) != 0 {
		t.Errorf("more than three messages: %v, %v", more, err)
	}
	effects := 0
	effect := func(*sql.Tx, []byte) error { effects++; return nil }
	failed := errors.New("effect failed")
	if err := handleOnce(ctx, db, got[0], func(*sql.Tx, []byte) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("an effect that fails: %v", err)
	}
	for range 2 {
		for _, d := range got {
			must(t, handleOnce(ctx, db, d, effect))
		}
	}
	if effects != 3 {
		t.Errorf("%d effects of three messages, each delivered twice", effects)
	}

	pub, stop, err := openPublisher(ctx, s.dsn, s.url)
	must(t, err)
	must(t, placeOrder(ctx, db, pub, Order{Number: "4712", Amount: 1999}))
	must(t, stop(ctx))
	sent, err := s.broker.Drain("q1")
	must(t, err)
	if n := len(sent) + len(s.settled(t)); n != 1 {
		t.Errorf("a publisher just opened: %d messages stored or sent, want 1", n)
	}
}

// A program that waits for a broker which is not there goes on all the same; one whose
// sender is closed does not.
func TestSampleOfStartOrderGoesOnWithoutABroker(t *testing.T) {
	t.Parallel()
	cfg, err := confirms.ParseURL("amqp://guest:guest@127.0.0.1:1/")
	must(t, err)
	sender, err := confirms.Open(cfg)
	must(t, err)
	must(t, waitForBroker(t.Context(), sender))
	must(t, sender.Close(t.Context()))
	if err := waitForBroker(t.Context(), sender); !errors.Is(err, model.ErrClosed) {
		t.Errorf("a closed sender: %v, want ErrClosed", err)
	}
}
