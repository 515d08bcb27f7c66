package compensator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/model"
)

const (
	// upkeepScope is what is locked for the upkeep: it is about the whole table, so one
	// replica does it whatever the services of each.
	upkeepScope = ""
	// upkeepEvery is the time between two looks at ages.
	upkeepEvery = time.Minute
	// leadMost bounds one lead: without a lock service every replica leads, and when it
	// answers again one is to be left.
	leadMost = 10 * time.Minute
	// clockSlack is how far back the database's clock may go unsaid.
	clockSlack = 5 * time.Minute

	// purgeRows and purgeBatches bound one round of purging: 50,000 rows a minute, in
	// statements that hold few locks, with a pause for the traffic between them.
	purgeRows    = 500
	purgeBatches = 100
	purgePause   = 20 * time.Millisecond
)

// upkeep is what goes on beside the runs: alerts that are owed, a look at the oldest
// rows, and purges. The replica that has the slot keeps it, so that the windows of alerts
// are in one memory. With several slots, or without a lock service, several replicas do
// them: each row is alerted by one all the same, but a group may be told by each.
type upkeep struct {
	c         *Compensator
	rowAlerts *rowAlerts
	last      time.Time // of the look at ages
	back      bool      // at that look the database's clock was behind what it had been
}

// run does the upkeep until ctx ends, and raises the alerts that are owed once more when
// draining has ended, so that those of the last outcomes need not wait for another process.
func (w *upkeep) run(ctx, draining, hard context.Context) {
	for sleep(ctx, w.c.cfg.alertEvery()) {
		w.locked(ctx, func(ctx context.Context, held func() bool) { w.lead(ctx, hard, held) })
	}
	<-draining.Done()
	if hard.Err() == nil {
		w.locked(hard, func(_ context.Context, held func() bool) { w.alerts(hard, held) })
	}
}

// locked calls fn while the slot is ours.
func (w *upkeep) locked(ctx context.Context, fn func(context.Context, func() bool)) {
	err := w.c.locked(ctx, upkeepScope, func(ctx context.Context, held func() bool) error {
		fn(ctx, held)
		return nil
	})
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrLocked) {
		w.c.log.Debug("upkeep skipped", "error", err)
	}
}

// lead does the upkeep while the slot is ours.
func (w *upkeep) lead(ctx, hard context.Context, held func() bool) {
	end := time.Now().Add(leadMost)
	mine := func() bool { return ctx.Err() == nil && held() }
	for mine() && time.Now().Before(end) {
		w.once(ctx, hard, mine)
		if !sleep(ctx, w.c.cfg.alertEvery()) {
			return
		}
	}
}

// survive logs a panic of the store or the observer.
func (w *upkeep) survive() {
	if p := recover(); p != nil {
		w.c.log.Error("upkeep panicked", "panic", fmt.Sprint(p))
	}
}

func (w *upkeep) alerts(hard context.Context, held func() bool) {
	defer w.survive()
	w.rowAlerts.pass(hard, held)
}

// once does what is to be done now.
func (w *upkeep) once(ctx, hard context.Context, mine func() bool) {
	w.alerts(hard, mine)
	defer w.survive()
	if !mine() || (!w.last.IsZero() && time.Since(w.last) < upkeepEvery) {
		return
	}
	w.last = time.Now()
	w.ages(hard)
	w.purge(ctx, hard, mine)
}

// ages looks at the times of the READY rows.
func (w *upkeep) ages(hard context.Context) {
	call, cancel := context.WithTimeout(hard, storeTimeout)
	defer cancel()
	stats, err := w.c.cfg.Store.Stats(call, "")
	if err != nil {
		w.failed(hard, "stats", err)
		return
	}
	w.clock(stats)
	if w.c.cfg.OldestReady != model.None {
		w.oldest(stats)
	}
}

// clock tells, once, of a database whose clock has gone back: until it is again where it
// was, rows stored before wait for longer than they should, and no age shows it.
func (w *upkeep) clock(stats []model.Stats) {
	var most model.Stats
	for _, s := range stats {
		if s.Ahead > most.Ahead {
			most = s
		}
	}
	before := w.back
	w.back = most.Ahead > clockSlack
	if before || !w.back {
		return
	}
	text := fmt.Sprintf("the database's clock has gone back by at least %v: messages stored before wait until it "+
		"has caught up, and look younger than they are; see to its time service", most.Ahead.Round(time.Second))
	w.c.log.Error("database clock behind", "service", most.Service, "ahead", most.Ahead, "text", text)
	now := time.Now()
	w.c.raise(Alert{
		Kind: model.AlertClock, Service: most.Service, Text: text, Count: int(most.Ready), First: now, Last: now,
	})
}

// oldest tells of services whose oldest READY row has waited for too long.
func (w *upkeep) oldest(stats []model.Stats) {
	now := time.Now()
	for i := range stats {
		s := &stats[i]
		if s.OldestReady <= w.c.cfg.OldestReady {
			continue
		}
		w.c.raise(Alert{
			Kind: model.AlertOldest, Service: s.Service, Count: int(s.Ready),
			Text:  fmt.Sprintf("the oldest READY message has waited for %v", s.OldestReady.Round(time.Second)),
			First: now.Add(-s.OldestReady), Last: now,
		})
	}
}

// purge deletes what is too old, and alerts that count no more.
func (w *upkeep) purge(ctx, hard context.Context, mine func() bool) {
	cfg := &w.c.cfg
	w.purgeBy(ctx, mine, "alerts", func() (int, error) {
		call, cancel := context.WithTimeout(hard, storeTimeout)
		defer cancel()
		return cfg.Store.SweepAlerts(call, purgeRows)
	})
	if cfg.EventRetention > 0 {
		w.purgeBy(ctx, mine, "events", func() (int, error) {
			call, cancel := context.WithTimeout(hard, storeTimeout)
			defer cancel()
			return cfg.Store.PurgeEvents(call, cfg.EventRetention, purgeRows)
		})
	}
	if cfg.DeadRetention > 0 {
		w.purgeBy(ctx, mine, "dead", func() (int, error) {
			call, cancel := context.WithTimeout(hard, storeTimeout)
			defer cancel()
			return cfg.Store.PurgeDead(call, cfg.DeadRetention, purgeRows)
		})
	}
	if cfg.LetterRetention > 0 {
		w.purgeBy(ctx, mine, "letters", func() (int, error) {
			call, cancel := context.WithTimeout(hard, storeTimeout)
			defer cancel()
			return cfg.Letters.PurgeLetters(call, cfg.LetterRetention, purgeRows)
		})
	}
	if cfg.InboxRetention > 0 {
		w.purgeBy(ctx, mine, "inbox", func() (int, error) {
			call, cancel := context.WithTimeout(hard, storeTimeout)
			defer cancel()
			return cfg.Store.PurgeInbox(call, cfg.InboxRetention, purgeRows)
		})
	}
}

func (w *upkeep) purgeBy(ctx context.Context, mine func() bool, what string, purge func() (int, error)) {
	total := 0
	for i := 0; i < purgeBatches && mine(); i++ {
		n, err := purge()
		total += n
		if err != nil {
			w.failed(ctx, "purge-"+what, err)
			break
		}
		if n < purgeRows || !sleep(ctx, purgePause) {
			break
		}
	}
	if total > 0 {
		w.c.cfg.observer.Purged(what, total)
		w.c.log.Info("purged", "what", what, "rows", total)
	}
}

func (w *upkeep) failed(ctx context.Context, op string, err error) {
	w.c.cfg.observer.StoreError(op, err)
	if ctx.Err() == nil {
		w.c.log.Warn("upkeep failed", "op", op, "error", err)
	}
}

// sleep waits for d and reports whether ctx is still live.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
