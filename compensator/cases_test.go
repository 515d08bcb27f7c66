package compensator_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

// C22: try N never fails because of try N-1. Twenty returns with ten kilobytes of text
// each add nothing to what is sent, and what the row keeps of the text is bounded.
func TestC22_RetriesAddNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		id := store.put(t, 1, "orders", func(r *model.TransMessage) {
			m, err := r.Message()
			if err != nil {
				t.Fatal(err)
			}
			m.Headers = map[string]any{"trace": strings.Repeat("x", 100_000), "n": int64(1)}
			r.Properties = model.EncodeProperties(&m, true)
		})[0]
		var first *model.Message
		tries := 0
		sender.script = func(s confirms.Send) model.Outcome {
			tries++
			if first == nil {
				copied := *s.Message
				first = &copied
			}
			if diff := cmp.Diff(*first, *s.Message); diff != "" {
				t.Errorf("try %d sends another message (-first +now):\n%.500s", tries, diff)
			}
			text := model.CleanText(fmt.Sprint("try ", tries, strings.Repeat(" at some.Stack.Trace", 500)))
			return model.Outcome{Kind: model.Returned, Code: model.CodeNoRoute, Text: text}
		}
		r := start(t, compensator.Config{
			Store: store, Sender: sender,
			Policy: model.Policy{
				MaxAttempts: 20, MinDeadAge: model.None, BaseDelay: time.Second, Multiplier: 1, Jitter: model.None,
			},
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		row, _ := store.row(id)
		if tries != 20 || row.Status != model.Dead || row.Attempts != 20 {
			t.Errorf("%d tries, then %s with %d attempts; want 20, DEAD", tries, row.Status, row.Attempts)
		}
		if n := len(row.LastError); n == 0 || n > 1024 {
			t.Errorf("the row keeps %d bytes of the last error, want 1 to 1024", n)
		}
		r.drained(t)
	})
}

// C26: while deletes fail, they are tried again alone: what a queue has taken is not sent
// a second time, and the rows go when the database lets them.
func TestC26_RefusedDeletesSendNothingTwice(t *testing.T) {
	onDatabases(t, func(t *testing.T, r *rig) {
		refuse := "CREATE TRIGGER no_delete BEFORE DELETE ON trans_message FOR EACH ROW " +
			"SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'deletes are refused'"
		allow := "DROP TRIGGER no_delete"
		if r.store.Dialect() == "postgres" {
			r.exec("CREATE FUNCTION no_delete() RETURNS trigger LANGUAGE plpgsql AS " +
				"$$ BEGIN RAISE EXCEPTION 'deletes are refused'; END $$")
			refuse = "CREATE TRIGGER no_delete BEFORE DELETE ON trans_message EXECUTE FUNCTION no_delete()"
			allow += " ON trans_message"
		}
		ids := r.put(100, "orders", "ex", "k")
		r.exec(refuse)
		var failed atomic.Int64
		cfg := r.config()
		cfg.Observers = []compensator.Observer{{StoreError: func(op string, err error) {
			if op == "delete" && strings.Contains(err.Error(), "deletes are refused") {
				failed.Add(1)
			}
		}}}
		comp, err := compensator.New(cfg)
		r.must(err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- comp.Run(ctx) }()
		eventually(t, "deletes that failed again and again", func() bool { return failed.Load() >= 3 })
		if s := r.stats(); s.Ready != 100 {
			t.Errorf("%d rows READY while deletes are refused, want 100", s.Ready)
		}
		r.exec(allow)
		r.untilRows(0, 0)
		cancel()
		r.must(<-done)
		r.deliveredOnce("q1", ids)
	})
}
