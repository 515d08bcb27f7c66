package main

import (
	"context"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

const (
	fenceRows  = 200
	fenceStops = 3
	fenceLease = 5 * time.Second
)

// fence is the second part of sigstop: rows that no queue takes, two processes without
// Redis, and leases of seconds. The process that holds rows is stopped until another one
// has sent and settled them, and goes on. What it then learns of its own sends concerns
// rows that are no longer its own. A trigger of the check's notes whose lease each
// settlement ended; the product's history says whose settlement it was.
type fence struct {
	*world
	exchange string
	all      []replica
}

func runFence(ctx context.Context, w *world) (figures, error) {
	f := &fence{world: w, exchange: w.name("nowhere")}
	for _, err := range []error{
		w.broker.Exchange(f.exchange, "direct", nil),
		w.broker.Queue(amqptest.QueueSpec{Name: w.name("other")}),
		f.audit(ctx),
	} {
		if err != nil {
			return nil, err
		}
	}
	messages := make([]model.Message, fenceRows)
	for i := range messages {
		messages[i] = w.message(f.exchange, "unbound", i, 512)
	}
	if _, err := w.shelve(ctx, serviceName, messages); err != nil {
		return nil, err
	}
	var err error
	if f.all, err = w.replicas("fenced", 2, "--lease", fenceLease.String(), "--confirm-timeout", "1s",
		"--interval", "100ms",
		"--batch", fmt.Sprint(20+w.Rand.IntN(40)), "--rate", fmt.Sprint(150+w.Rand.IntN(100)),
		"--base-delay", "1s", "--multiplier", "1", "--jitter", "0", "--max-attempts", "10000"); err != nil {
		return nil, err
	}
	overtaken, stops := 0, 0
	for tries := 0; stops < fenceStops && tries < 5*fenceStops; tries++ {
		n, err := f.overtake(ctx)
		if err != nil {
			return nil, err
		}
		overtaken, stops = overtaken+n, stops+btoi(n > 0)
	}
	w.Breaches.Equal("stops in which another process went on with the rows", stops, fenceStops)
	if err := w.stopAll(f.all); err != nil {
		return nil, err
	}
	figs := figures{"rows": fenceRows, "stops": fenceStops, "overtaken": overtaken}
	return figs, f.check(ctx, figs)
}

// audit notes every settlement with the instance whose lease it ended.
func (f *fence) audit(ctx context.Context) error {
	const table = "CREATE TABLE settled (n %s PRIMARY KEY, id CHAR(36), held_by VARCHAR(64), failures INT)"
	const note = "INSERT INTO settled (id, held_by, failures) VALUES (OLD.id, OLD.claimed_by, NEW.failures)"
	statements := []string{
		fmt.Sprintf(table, "BIGINT AUTO_INCREMENT"),
		"CREATE TRIGGER note_settled AFTER UPDATE ON trans_message FOR EACH ROW BEGIN " +
			"IF NEW.claimed_by = '' AND NEW.version <> OLD.version THEN " + note + "; END IF; END",
	}
	if f.db.dialect == "postgres" {
		statements = []string{
			fmt.Sprintf(table, "BIGSERIAL"),
			"CREATE FUNCTION note_settled() RETURNS trigger LANGUAGE plpgsql AS $$ " +
				"BEGIN " + note + "; RETURN NULL; END $$",
			"CREATE TRIGGER note_settled AFTER UPDATE ON trans_message FOR EACH ROW WHEN " +
				"(NEW.claimed_by = '' AND NEW.version <> OLD.version) EXECUTE FUNCTION note_settled()",
		}
	}
	for _, s := range statements {
		if _, err := f.db.db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("note settlements: %w", err)
		}
	}
	return nil
}

// overtake stops the process at work until none of the rows that it holds is its own any
// more, lets it go on, and returns how many those were. A process that is stopped inside a
// transaction keeps its rows locked, and nobody overtakes it: then it returns 0.
func (f *fence) overtake(ctx context.Context) (held int, err error) {
	var stopped replica
	if err := until(ctx, time.Minute, "a process is stopped that holds rows", func(ctx context.Context) (bool, error) {
		r := f.all[f.Rand.IntN(len(f.all))]
		if n, err := f.heldBy(ctx, r.instance); n == 0 || err != nil {
			return false, err
		}
		if err := r.Pause(); err != nil {
			return false, err
		}
		if held, err = f.heldBy(ctx, r.instance); held == 0 || err != nil {
			return false, r.Resume()
		}
		stopped = r
		return true, nil
	}); err != nil {
		return 0, err
	}
	settled := until(ctx, 3*fenceLease, "another process has settled them", func(ctx context.Context) (bool, error) {
		n, err := f.heldBy(ctx, stopped.instance)
		return n == 0, err
	})
	if settled != nil {
		return 0, stopped.Resume()
	}
	before, err := f.settledBy(ctx, stopped.instance)
	if err != nil {
		return 0, err
	}
	if err := stopped.Resume(); err != nil {
		return 0, err
	}
	return held, until(ctx, time.Minute, "the stopped process is at work again",
		func(ctx context.Context) (bool, error) {
			n, err := f.settledBy(ctx, stopped.instance)
			return n > before+held, err // more than it can have held
		})
}

func (f *fence) settledBy(ctx context.Context, instance string) (int, error) {
	return f.db.number(ctx, "SELECT COUNT(*) FROM trans_message_event WHERE instance = ?", instance)
}

func (f *fence) heldBy(ctx context.Context, instance string) (int, error) {
	return f.db.number(ctx, "SELECT COUNT(*) FROM trans_message WHERE claimed_by = ?", instance)
}

// check compares what the trigger noted with the history.
func (f *fence) check(ctx context.Context, figs figures) error {
	free, err := f.db.number(ctx, "SELECT COUNT(*) FROM settled WHERE held_by = ''")
	if err != nil {
		return err
	}
	f.Breaches.Equal("settlements of rows that nobody held", free, 0)
	// Hand-backs raise no count and leave no event.
	noted, err := f.db.strings(ctx, "SELECT held_by FROM settled s WHERE failures > "+
		"(SELECT COALESCE(MAX(p.failures), 0) FROM settled p WHERE p.id = s.id AND p.n < s.n) ORDER BY s.id, s.n")
	if err != nil {
		return err
	}
	told, err := f.db.strings(ctx, "SELECT instance FROM trans_message_event ORDER BY row_id, id")
	if err != nil {
		return err
	}
	foreign := 0
	for i := range min(len(noted), len(told)) {
		foreign += btoi(noted[i] != told[i])
	}
	f.Breaches.Equal("settlements in the history", len(told), len(noted))
	f.Breaches.Equal("settlements of rows that another process held", foreign, 0)
	f.Breaches.AtLeast("settlements", int64(len(noted)), fenceRows)
	figs["settlements"] = len(noted)
	return nil
}
