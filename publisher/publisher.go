package publisher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

// Publisher stores and sends the messages of one service. Make one per service and
// process with [Open] and share it: it is safe for concurrent use, and the more callers
// it has, the more they share statements and round trips. Close it before its Store and
// Sender.
type Publisher struct {
	cfg     Config
	log     *slog.Logger
	limits  model.Limits
	epoch   int // of the ids that this publisher makes, each of which has one first life
	batcher *settle.Batcher

	mu       sync.Mutex
	closed   bool
	active   int           // calls and envelopes in progress
	idle     chan struct{} // closed when closed && active == 0
	stopLag  context.CancelFunc
	watchers sync.WaitGroup
	sending  atomic.Int64 // envelopes that hold room at the sender or are on the wire
	lag      atomic.Int64 // the oldest due row's age at the last check
}

// Open checks cfg and its relations and returns a Publisher. It never waits for the
// broker: with the broker down messages are stored. The error names the field, the
// value and the bound.
func Open(cfg Config) (*Publisher, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("publisher: %w", err)
	}
	p := &Publisher{
		cfg: cfg, log: cfg.Logger, idle: make(chan struct{}),
		limits: model.Limits{MaxBody: cfg.MaxBody}, epoch: model.NewEpoch(),
	}
	p.batcher = settle.NewBatcher(settle.Config{
		Store: cfg.Store, Policy: cfg.Policy, Instance: cfg.Instance,
		MaxPending: cfg.MaxUnsettled, Logger: cfg.Logger.With("instance", cfg.Instance),
		OnRestored: func(row *model.TransMessage) { cfg.observer.Restored(row.ID) },
		OnError:    cfg.observer.StoreError,
	})
	ctx, cancel := context.WithCancel(context.Background())
	p.stopLag = cancel
	p.watchers.Go(func() { p.watchLag(ctx) })
	p.watchers.Go(func() { p.keeper().Run(ctx) })
	return p, nil
}

// Close refuses new calls, waits for the confirms of what is in envelope and for the
// writes that follow, until ctx ends. Nil means drained. Otherwise the error is
// [model.ErrNotDrained] and says how many rows stay READY; a compensator sends them when
// their leases end. A second Close waits like the first. It does not close Store and
// Sender.
func (p *Publisher) Close(ctx context.Context) error {
	if err := p.usable(); err != nil {
		return err
	}
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		p.stopLag()
		if p.active == 0 {
			close(p.idle)
		}
	}
	p.mu.Unlock()
	p.watchers.Wait()

	unsent := 0
	select {
	case <-p.idle:
	case <-ctx.Done():
		p.mu.Lock()
		unsent = p.active
		p.mu.Unlock()
	}
	err := p.batcher.Close(ctx)
	switch {
	case unsent > 0:
		return fmt.Errorf("publisher: close: %w: %d messages without an outcome stay READY",
			model.ErrNotDrained, unsent+p.batcher.Pending())
	case err != nil:
		return fmt.Errorf("publisher: close: %w", err)
	}
	return nil
}

// Stats are figures of this process.
type Stats struct {
	InFlight  int           // calls in progress and sends without an outcome
	Unsettled int           // outcomes not yet written to the store
	OldestDue time.Duration // how long the service's oldest due row has been due, checked once a minute
}

// Stats returns the figures of this process; those of a nil Publisher are zero. It does no
// I/O.
func (p *Publisher) Stats() Stats {
	if p.usable() != nil {
		return Stats{}
	}
	p.mu.Lock()
	n := p.active
	p.mu.Unlock()
	return Stats{InFlight: n, Unsettled: p.batcher.Pending(), OldestDue: time.Duration(p.lag.Load())}
}

// enter registers n calls or envelopes, unless the publisher is closed.
func (p *Publisher) enter(n int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return fmt.Errorf("publisher: %w", model.ErrClosed)
	}
	p.active += n
	return nil
}

// hold registers n envelopes on behalf of a call that has entered.
func (p *Publisher) hold(n int) {
	p.mu.Lock()
	p.active += n
	p.mu.Unlock()
}

func (p *Publisher) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.active--
	if p.closed && p.active == 0 {
		close(p.idle)
	}
}

// watchLag looks once a minute how old the service's oldest due row is. The commonest
// mistake is that no compensator runs, and then the publisher is the only one who can
// say so.
func (p *Publisher) watchLag(ctx context.Context) {
	tick := time.NewTicker(lagCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.checkLag(ctx)
		}
	}
}

func (p *Publisher) checkLag(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lagCheck/2)
	defer cancel()
	oldest, err := p.cfg.Store.OldestDue(ctx, p.cfg.Service)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			p.log.Warn("read the age of the oldest due row", "service", p.cfg.Service, "error", err)
			p.cfg.observer.StoreError("oldest-due", err)
		}
		return
	}
	p.lag.Store(int64(oldest))
	if oldest <= lagLimit {
		return
	}
	p.log.Error("stored messages are not being sent: is a compensator running?",
		"service", p.cfg.Service, "oldest_due", oldest.Round(time.Second).String())
	p.cfg.observer.Lagging(oldest)
}
