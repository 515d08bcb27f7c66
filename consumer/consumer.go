package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/transmsg/transmsg/internal/broker"
	"github.com/transmsg/transmsg/model"
)

// everybody is the weight of a handler call that runs while no other of the process does.
const everybody = 1 << 30

// Consumer consumes queues on a connection of its own. It is safe for concurrent use; Run is called once.
type Consumer struct {
	cfg    Config
	broker broker.Settings
	log    *slog.Logger
	queues []*queue
	// calls is held by every handler call, and as a whole by that of a message which may end the process.
	calls *semaphore.Weighted
	// ids is held by the copies on their way: a sender has each id in flight once.
	ids keyLock

	started  atomic.Bool
	mu       sync.Mutex
	lastErr  error // why there is no connection
	loggedAt time.Time
}

// New validates the config; it starts and connects nothing. Every error names the field, its value and the bound.
func New(cfg Config) (*Consumer, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Consumer{
		cfg: cfg, broker: cfg.settings(), log: cfg.Logger.With("consumer", cfg.Name),
		calls: semaphore.NewWeighted(everybody), ids: keyLock{held: make(map[string]chan struct{})},
	}
	for _, q := range cfg.Queues {
		c.queues = append(c.queues, newQueue(c, q))
	}
	return c, nil
}

// Run consumes until ctx ends. It never gives up for want of a broker or a queue: Health says what is missing. When
// ctx has ended it takes nothing new, gives back what no handler has begun, lets handlers end for DrainTimeout, then
// ends their contexts and gives them a moment more. It returns nil when every delivery was settled or given back, else
// model.ErrNotDrained with their number: the broker delivers those again. Run may be called once.
func (c *Consumer) Run(ctx context.Context) error {
	if !c.started.CompareAndSwap(false, true) {
		return errors.New("consumer: run: it has run before")
	}
	for _, q := range c.queues {
		q.note(StateConnecting, "")
	}
	var watching sync.WaitGroup
	if c.cfg.Management.URL != nil {
		watching.Go(func() { c.watchSteps(ctx) })
	}
	c.supervise(ctx)
	watching.Wait()
	left := 0
	for _, q := range c.queues {
		left += q.stopped(time.Now().Add(lastMoment))
	}
	if left > 0 {
		return fmt.Errorf("consumer: run: %w: %d deliveries were not settled", model.ErrNotDrained, left)
	}
	return nil
}

// lastMoment is what handlers get after their contexts have ended.
const lastMoment = time.Second

// supervise keeps one connection at a time until ctx ends.
func (c *Consumer) supervise(ctx context.Context) {
	next := startAt(len(c.cfg.Addrs))
	for generation := uint64(1); ctx.Err() == nil; generation++ {
		d, ok := c.broker.DialUntil(ctx, &next, c.dialFailed)
		if !ok {
			return
		}
		c.connected(d.Addr, generation)
		err := newSession(c, generation, d).run(ctx)
		c.disconnected(ctx, generation, err)
		broker.Sleep(ctx, broker.Jitter(broker.MinBackoff))
	}
}

// repeatLog is how often an unchanged dial error is logged again.
const repeatLog = time.Minute

func (c *Consumer) dialFailed(err error) {
	c.mu.Lock()
	news := c.lastErr == nil || c.lastErr.Error() != err.Error() || time.Since(c.loggedAt) > repeatLog
	c.lastErr = err
	if news {
		c.loggedAt = time.Now()
	}
	c.mu.Unlock()
	if news {
		c.log.Warn("no connection to the broker", "error", err)
	}
	for _, q := range c.queues {
		q.note(StateConnecting, err.Error())
	}
}

func (c *Consumer) connected(addr string, generation uint64) {
	c.mu.Lock()
	c.lastErr = nil
	c.mu.Unlock()
	c.log.Info("connected to the broker", "addr", addr, "generation", generation)
	c.cfg.observer.Connected(addr, generation)
}

func (c *Consumer) disconnected(ctx context.Context, generation uint64, err error) {
	if ctx.Err() != nil {
		c.log.Info("connection closed", "generation", generation)
		err = errors.New("closed")
	} else {
		c.log.Warn("connection lost", "error", err, "generation", generation)
		for _, q := range c.queues {
			q.note(StateConnecting, err.Error())
		}
	}
	c.cfg.observer.Disconnected(generation, err)
}

// find returns the queue of a name.
func (c *Consumer) find(name string) (*queue, error) {
	for _, q := range c.queues {
		if q.cfg.Name == name {
			return q, nil
		}
	}
	return nil, fmt.Errorf("consumer: queue %q is not consumed here", name)
}
