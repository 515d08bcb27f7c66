package collector

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/broker"
	"github.com/transmsg/transmsg/model"
)

const (
	closeGrace = 2 * time.Second
	// callTimeout bounds a call to the broker: the client library knows no deadline for one.
	callTimeout = 10 * time.Second
	minBackoff  = 200 * time.Millisecond
	maxBackoff  = 30 * time.Second
)

// Collector moves dead letters into the store. It is safe for concurrent use.
type Collector struct {
	cfg    Config
	broker broker.Settings
	log    *slog.Logger
	queues []*queue
}

// New checks the config. It opens nothing.
func New(cfg Config) (*Collector, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	c := &Collector{cfg: cfg, broker: cfg.settings(), log: cfg.Logger.With("collector", cfg.Name)}
	for _, name := range cfg.Queues {
		c.queues = append(c.queues, newQueue(c, name))
	}
	return c, nil
}

// Run collects until ctx ends, and then ends the batch that it has: within 10 s, and letters that are not stored by
// then are the queue's again. It returns nil. It connects again and again; it may be called once.
func (c *Collector) Run(ctx context.Context) error {
	next := rand.IntN(len(c.broker.Addrs))
	for ctx.Err() == nil {
		d, ok := c.broker.DialUntil(ctx, &next, func(err error) {
			c.note(model.CleanText(err.Error()))
			c.log.Warn("connect", "error", err)
		})
		if !ok {
			break
		}
		c.session(ctx, d)
	}
	c.note("stopped")
	return nil
}

// note gives all queues a reason why nothing is collected.
func (c *Collector) note(reason string) {
	for _, q := range c.queues {
		q.note(reason)
	}
}

// session collects over one connection until that is lost or ctx has ended.
func (c *Collector) session(ctx context.Context, d broker.Dialled) {
	life, end := context.WithCancel(ctx)
	closed := d.Conn.NotifyClose(make(chan *amqp.Error, 1))
	var serving, watching sync.WaitGroup
	for _, q := range c.queues {
		serving.Go(func() { q.serve(life, &d) })
	}
	watching.Go(func() {
		select {
		case cause := <-closed:
			if ctx.Err() == nil {
				c.note(fmt.Sprintf("connection lost: %v", cause))
				c.log.Warn("connection lost", "cause", fmt.Sprint(cause))
			}
			end()
		case <-life.Done():
		}
	})
	serving.Wait()
	end()
	watching.Wait()
	d.CloseGracefully(closeGrace)
	d.Wire.Kill()
	<-d.Wire.Flushed
}

// State is what is known of one queue.
type State struct {
	Queue string
	// Reason says why nothing is collected, or is empty.
	Reason string
	// Collected counts letters whose storing was committed, Aside those that went to the uncollectable queue, Failed
	// the tries to store or to set aside that came to nothing.
	Collected, Aside, Failed uint64
	// Held are the letters in memory.
	Held int
}

// States returns the state of each queue.
func (c *Collector) States() []State {
	out := make([]State, len(c.queues))
	for i, q := range c.queues {
		out[i] = q.snapshot()
	}
	return out
}
