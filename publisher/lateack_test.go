package publisher_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/faultproxy"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

// A sender is held for longer than its lease, the row is edited, and then the ack of the old
// message comes: both may be out, which history and log say, also where the edited one has
// been delivered by then and the row is gone. A row that nobody edited gets no such line.
func TestA4_AnAckOfTheOldContentIsNoticed(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name            string
		edit, delivered bool
	}{
		{name: "the row waits", edit: true},
		{name: "the edited one was delivered", edit: true, delivered: true},
		{name: "not edited, delivered by another", delivered: true},
	}
	for _, dialect := range []string{"mysql", "postgres", "sqlite"} {
		for _, tt := range tests {
			t.Run(dialect+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				s := newStack(t, dialect)
				pub, proxy, log := s.heldSender(t)
				r, err := pub.Publish(t.Context(), msg("k"))
				must(t, err)
				must(t, r.Err(t.Context())) // the exchange is known from then on
				_, err = s.broker.Collect(t.Context(), "q1", 1)
				must(t, err)
				proxy.Stall(faultproxy.ToClient)
				r, err = pub.Publish(t.Context(), msg("k"))
				must(t, err)
				_, err = s.broker.Collect(t.Context(), "q1", 1) // the broker has it, its ack is held
				must(t, err)
				s.endLeases(t)
				if tt.edit {
					body := []byte("corrected")
					must(t, s.store.Edit(t.Context(), r.ID(), model.Edit{Body: &body, Actor: "ann"}))
				}
				if tt.delivered {
					row, _, err := s.store.Show(t.Context(), r.ID())
					must(t, err)
					n, err := s.store.Delete(t.Context(), []model.RowKey{{ID: row.ID, Epoch: row.Epoch}})
					if err != nil || n != 1 {
						t.Fatalf("deleted %d, %v", n, err)
					}
				}
				proxy.Resume()
				must(t, r.Err(t.Context())) // it was acked
				must(t, pub.Close(t.Context()))

				row, events, _ := s.store.Show(t.Context(), r.ID()) // ErrNotFound comes with the history
				if left := row.ID != ""; left == tt.delivered || left && string(row.Payload) != "corrected" {
					t.Errorf("row %+v", row)
				}
				late := 0
				for _, e := range events {
					if e.Kind == model.EventLateAck && strings.Contains(e.Text, "consumers may get both") {
						late++
					}
				}
				if want := map[bool]int{true: 1}[tt.edit]; late != want {
					t.Errorf("%d late acks in the history %+v, want %d", late, events, want)
				}
				if logged := strings.Contains(log.String(), "acked after it had been edited"); logged != tt.edit {
					t.Errorf("in the log: %v, want %v", logged, tt.edit)
				}
			})
		}
	}
}

// heldSender is a publisher of the stack whose broker is behind a proxy, and its log.
func (s *stack) heldSender(t *testing.T) (*publisher.Publisher, *faultproxy.Proxy, *bytes.Buffer) {
	t.Helper()
	cfg, err := confirms.ParseURL(s.url)
	must(t, err)
	proxy, err := faultproxy.New(cfg.Addrs[0])
	must(t, err)
	t.Cleanup(func() { must(t, proxy.Close()) })
	cfg.Addrs = []string{proxy.Addr()}
	sender, err := confirms.Open(cfg)
	must(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		must(t, sender.Close(ctx))
	})
	must(t, sender.WaitReady(t.Context()))
	var log bytes.Buffer
	pub, err := publisher.Open(publisher.Config{
		Service: "orders", Store: s.store, Sender: sender, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	must(t, err)
	return pub, proxy, &log
}

// endLeases makes the leases of all rows have ended long ago.
func (s *stack) endLeases(t *testing.T) {
	t.Helper()
	driver := map[string]string{"mysql": "mysql", "postgres": "pgx", "sqlite": "sqlite"}[s.dialect]
	dsn := s.dsn
	if s.dialect == "sqlite" {
		dsn += "?_pragma=busy_timeout(60000)" // the store may be writing
	}
	db, err := sql.Open(driver, dsn)
	must(t, err)
	_, err = db.ExecContext(t.Context(), "UPDATE trans_message SET next_attempt_at = next_attempt_at - 600000")
	must(t, errors.Join(err, db.Close()))
}
