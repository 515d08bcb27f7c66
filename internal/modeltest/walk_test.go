package modeltest_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/libtnb/sqlite"
	"go.uber.org/goleak"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	"pgregory.net/rapid"

	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/migrations"
	litestore "github.com/transmsg/transmsg/store/sqlite"
)

// steps of one walk, instead of the 30 that are the default.
const steps = "70"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("rapid.steps", steps); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

const service = "walk"

// walk is the state of one random walk.
type walk struct {
	ctx      context.Context //nolint:containedctx // of the test, for the actions that rapid calls
	db       *sql.DB
	store    *gormstore.Store
	batchers map[string]*settle.Batcher // by actor, as each process has its own
	clock    int                        // minutes gone by
	messages map[string]*message
	flights  []*flight
}

// actors: one publisher and two compensators.
func actors() []string { return []string{"publisher", "one", "two"} }

func newWalk(t *rapid.T) *walk {
	w := &walk{ctx: t.Context(), messages: map[string]*message{}, batchers: map[string]*settle.Batcher{}}
	gdb, err := gorm.Open(sqlite.Open(":memory:?_txlock=immediate"), &gorm.Config{Logger: logger.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if w.db, err = gdb.DB(); err != nil {
		t.Fatal(err)
	}
	w.db.SetMaxOpenConns(1) // an in-memory database is its connection
	if w.store, err = migrations.Open(w.ctx, litestore.Gorm(gdb), gormstore.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, actor := range actors() {
		w.newBatcher(actor)
	}
	return w
}

func (w *walk) newBatcher(actor string) {
	w.batchers[actor] = settle.NewBatcher(settle.Config{
		Store: w.store, Instance: actor,
		Policy: model.Policy{
			BaseDelay: baseDelay * time.Minute, MaxDelay: maxDelay * time.Minute, Multiplier: 2, Jitter: model.None,
			MaxAttempts: maxAttempts, MinDeadAge: model.None,
		},
	})
}

func (w *walk) close(t *rapid.T) {
	for _, b := range w.batchers {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}
	if err := w.store.Close(); err != nil {
		t.Error(err)
	}
	if err := w.db.Close(); err != nil {
		t.Error(err)
	}
}

// TestRowsWalk walks rows at random and checks the table after every step.
func TestRowsWalk(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWalk(t)
		defer w.close(t)
		t.Repeat(map[string]func(*rapid.T){
			"":             w.check,
			"publish":      w.publish,
			"publishAgain": w.publishAgain,
			"renew":        w.renew,
			"claim":        w.claim,
			"claimMore":    w.claim, // twice as likely
			"answer":       w.answer,
			"answerMore":   w.answer,
			"lateAck":      w.lateAck,
			"crash":        w.crash,
			"timePasses":   w.timePasses,
			"replay":       w.replay,
			"edit":         w.edit,
			"discard":      w.discard,
		})
		w.end(t)
	})
}

// check compares the table with the model, column by column, and both with what the broker
// has: a message that is not in the table was taken by it or discarded.
func (w *walk) check(t *rapid.T) {
	want, got := map[string]row{}, w.table(t)
	for id, m := range w.messages {
		if m.row != nil {
			want[id] = *m.row
			m.epoch = max(m.epoch, m.row.Epoch)
		}
		if _, there := got[id]; !there && !m.discarded && !m.accepted[m.epoch] {
			t.Fatalf("lost: %s is not in the table, not discarded, and the broker never took its epoch %d", id, m.epoch)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("table (-want +got):\n%s", diff)
	}
}

// table reads the rows by SQL of the walk's own. Due times are minutes of its clock.
func (w *walk) table(t *rapid.T) map[string]row {
	rows, err := w.db.QueryContext(w.ctx, "SELECT id, status, attempts, failures, claims, version, epoch, claimed_by, "+
		"payload, next_attempt_at - CAST(unixepoch('subsec') * 1000 AS INTEGER) FROM trans_message")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	out := map[string]row{}
	for rows.Next() {
		var id string
		var r row
		var left int64
		err := rows.Scan(&id, &r.Status, &r.Attempts, &r.Failures, &r.Claims, &r.Version, &r.Epoch, &r.Instance,
			&r.Body, &left)
		if err != nil {
			t.Fatal(err)
		}
		// The walk itself takes seconds, never minutes: rounding finds the minute that was meant.
		r.Due = w.clock + int((time.Duration(left) * time.Millisecond).Round(5*time.Minute).Minutes())
		out[id] = r
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// end lets all time pass, with one honest compensator and a broker that takes everything:
// whatever happened, every READY row leaves.
func (w *walk) end(t *rapid.T) {
	w.flights = nil
	for range 3 {
		w.pass(t, claimLease+maxDelay)
		for _, f := range w.claimBy(t, "one", 1000) {
			w.tell(t, f, model.Outcome{Kind: model.Acked}, true)
		}
		w.check(t)
	}
	for id, r := range w.table(t) {
		if r.Status != model.Dead {
			t.Fatalf("%s is still %s at the end: %+v", id, r.Status, r)
		}
	}
}

// pick draws one of the newest ids, in the table or not, and "" when there is none.
func (w *walk) pick(t *rapid.T) string {
	ids := slices.Sorted(maps.Keys(w.messages))
	ids = ids[max(0, len(ids)-4):]
	if len(ids) == 0 {
		return ""
	}
	return rapid.SampledFrom(ids).Draw(t, "id")
}

func (w *walk) newID() string { return fmt.Sprintf("00000000-0000-7000-8000-%012d", len(w.messages)) }
