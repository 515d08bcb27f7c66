package compensator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"

	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

// Compensator sends what is due; see the package comment. Make it with [New].
type Compensator struct {
	cfg          Config
	log          *slog.Logger
	pace         *pace
	appetite     appetite
	unanswered   *unanswered
	outage       outage
	batcher      *settle.Batcher
	conditions   []*conditions // by sink
	upkeep       *upkeep
	identityMu   sync.Mutex
	identity     string // of the store, in the locks' names
	unread       unread
	health       health
	suspectsTold time.Time // looked at by the run's goroutine alone
	started      atomic.Bool
	running      chan struct{} // one slot, taken by a run: one at a time, and Run waits for the last
}

// New returns a Compensator, or an error that names the field of cfg that is out of
// bounds, its value and the bound. It starts nothing and talks to nobody.
func New(cfg Config) (*Compensator, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("compensator: %w", err)
	}
	c := &Compensator{
		cfg: cfg, log: cfg.Logger.With("instance", cfg.Instance),
		appetite: appetite{full: cfg, share: 1},
		pace:     newPace(cfg.Rate, cfg.BatchRows, cfg.SlowStart), unanswered: newUnanswered(),
		running: make(chan struct{}, 1),
	}
	c.upkeep = &upkeep{c: c, rowAlerts: &rowAlerts{cfg: &c.cfg, log: c.log, told: map[model.AlertKey]partly{}}}
	for _, alerter := range cfg.alerters() {
		s := newSink(&c.cfg, alerter, c.log)
		c.upkeep.rowAlerts.sinks = append(c.upkeep.rowAlerts.sinks, s)
		c.conditions = append(c.conditions, &conditions{cfg: &c.cfg, sink: s, pending: map[group]*Alert{}})
	}
	c.batcher = settle.NewBatcher(settle.Config{
		Store: cfg.Store, Policy: cfg.Policy, Instance: cfg.Instance, Logger: c.log, OnSettled: c.settled,
		OnRestored: func(row *model.TransMessage) { cfg.observer.Restored(row.Service, row.ID) },
		OnError:    cfg.observer.StoreError,
		MaxPending: max(settle.DefaultMaxPending, 4*cfg.BatchRows),
	})
	return c, nil
}

// Run sends what is due, run by run, until ctx ends. It blocks, owns every goroutine it
// starts and may be called once. When ctx ends it claims nothing more, hands back what
// it claimed and did not send, waits for the outstanding confirms and the writing of
// their outcomes for at most Config.DrainTimeout, and gives its lock slot back. The
// error is nil when everything was written, and otherwise [model.ErrNotDrained]: the
// rows concerned are safe and due again when their leases end. Faults of the database,
// the broker or the lock service do not end it; they are logged and the next run tries
// again.
func (c *Compensator) Run(ctx context.Context) error {
	return c.run(ctx, context.WithoutCancel(ctx))
}

// run is Run whose draining also ends with hard.
func (c *Compensator) run(ctx, hard context.Context) error {
	if c.started.Swap(true) {
		return errors.New("compensator: run: called twice")
	}
	// hard outlives ctx by DrainTimeout: what must still be done after a stop runs under it.
	hard, cut := context.WithCancel(hard)
	defer cut()
	scheduler, err := c.schedule(ctx, hard)
	if err != nil {
		return fmt.Errorf("compensator: schedule: %w", err)
	}
	defer c.cfg.Sender.OnRefusal(c.refusal)()
	draining, drained := context.WithCancel(hard)
	defer drained()
	var wg sync.WaitGroup
	for _, n := range c.conditions {
		wg.Go(func() { n.run(draining, hard) })
	}
	wg.Go(func() { c.upkeep.run(ctx, draining, hard) })
	wg.Go(func() { (&serviceNames{c: c}).run(ctx) })
	wg.Go(func() { c.keeper().Run(draining) })
	scheduler.Start()

	<-ctx.Done()
	timer := time.AfterFunc(c.cfg.DrainTimeout, cut)
	defer timer.Stop()
	c.running <- struct{}{} // the last run has ended, and none begins any more
	if err := scheduler.Shutdown(); err != nil {
		c.log.Warn("stop the scheduler", "error", err)
	}
	err = c.drain(hard)
	drained() // after the last outcome, which may be worth an alert
	wg.Wait()
	return err
}

// Raise tells of something that stands in no table, such as a dead letter that cannot be stored, by the same sinks and
// windows. It does not wait. What was not delivered when Run ends is lost.
func (c *Compensator) Raise(a Alert) { c.raise(a) }

// raise tells every sink of what stands in no table.
func (c *Compensator) raise(a Alert) {
	for _, n := range c.conditions {
		n.add(a)
	}
}

// drain waits for the outcomes that are outstanding and for their writing.
func (c *Compensator) drain(hard context.Context) error {
	_ = c.unanswered.wait(hard, 0, 0) // what is left is counted
	err := c.batcher.Close(hard)
	if n := c.unanswered.count(); n > 0 {
		err = errors.Join(fmt.Errorf("%w: %d sends without an outcome", model.ErrNotDrained, n), err)
	}
	if err != nil {
		return fmt.Errorf("compensator: %w", err)
	}
	return nil
}

// schedule makes the one job. gocron's own Locker is not used: it renews nothing, tells
// nobody of a loss and releases under a context that has ended.
func (c *Compensator) schedule(ctx, hard context.Context) (gocron.Scheduler, error) {
	s, err := gocron.NewScheduler(gocron.WithLocation(time.UTC), gocron.WithStopTimeout(time.Second))
	if err != nil {
		return nil, err
	}
	definition := gocron.CronJob(c.cfg.Cron, c.cfg.cronSeconds())
	options := []gocron.JobOption{
		gocron.WithName("transmsg-compensator"),
		gocron.WithSingletonMode(gocron.LimitModeReschedule),
		gocron.WithEventListeners(gocron.AfterJobRunsWithPanic(c.panicked)),
	}
	if c.cfg.Cron == "" {
		definition = gocron.DurationJob(c.cfg.Interval)
		options = append(options, gocron.WithStartAt(gocron.WithStartImmediately()))
	}
	job := func() { c.job(ctx, hard) }
	if _, err := s.NewJob(definition, gocron.NewTask(job), options...); err != nil {
		return nil, errors.Join(err, s.Shutdown())
	}
	return s, nil
}

// job is one firing of the schedule.
func (c *Compensator) job(ctx, hard context.Context) {
	select {
	case c.running <- struct{}{}:
		defer func() { <-c.running }()
	default:
		return
	}
	if ctx.Err() != nil {
		return
	}
	if !c.ready() {
		c.cfg.observer.RunSkipped(SkipNotReady)
		return
	}
	err := c.locked(ctx, c.cfg.scope(), func(ctx context.Context, held func() bool) error {
		newRun(c, held).do(ctx, hard)
		return nil
	})
	c.suspectsWait()
	switch {
	case errors.Is(err, ErrLocked):
		c.cfg.observer.RunSkipped(SkipLocked)
	case err != nil && ctx.Err() == nil:
		c.log.Warn("run skipped", "error", err)
		c.cfg.observer.RunSkipped(SkipLock)
	}
}

// panicked is told of a run that panicked; its deferred steps have handed back its rows
// and given up its slot, and the next firing tries again.
func (c *Compensator) panicked(_ uuid.UUID, _ string, value any) {
	c.log.Error("run panicked", "panic", fmt.Sprint(value))
}
