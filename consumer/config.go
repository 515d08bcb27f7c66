package consumer

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/broker"
	"github.com/transmsg/transmsg/model"
)

// Defaults and bounds of [Config] and [Queue].
const (
	DefaultPrefetch        = 50
	DefaultHandlers        = 10
	DefaultDeadline        = time.Minute
	DefaultConsumerTimeout = 30 * time.Minute
	DefaultDrainTimeout    = 20 * time.Second
	DefaultMaxBackoff      = 30 * time.Second
	DefaultMaxCrashes      = 5

	maxPrefetch   = 10_000
	maxMaxCrashes = 100
	minTimeout    = 100 * time.Millisecond
	maxRate       = 1e6
)

// Sender sends the copies of messages, in confirm mode and on a connection of its own. *confirms.Sender is one.
type Sender interface {
	// Reserve waits for room for n messages of together so many bytes.
	Reserve(ctx context.Context, n int, bytes int64) error
	// Send takes a message on; its handler gets the one outcome.
	Send(send confirms.Send)
}

// Config describes a [Consumer]. The zero value of a field means its default; Addrs, Credentials, Queues and Sender
// have none.
type Config struct {
	// Addrs are the "host:port" of the brokers of one cluster. They are tried in turn, starting with a random one.
	Addrs []string
	// VHost is the virtual host, not percent-encoded. Defaults to "/".
	VHost string
	// Credentials returns user and password. It is asked at every dial and, on an open connection, before a token
	// ends and each minute: a new password of the same user is given to the broker without a new connection.
	Credentials func(ctx context.Context) (user, password string, err error)
	// TLS returns the TLS settings and is asked at every dial. Nil means plain AMQP.
	TLS func(ctx context.Context) (*tls.Config, error)
	// Name is shown as the connection's name in the management UI. Defaults to "transmsg-consumer".
	Name string
	// WriteTimeout is how long the socket may take no byte. Defaults to 5 s; at least 100 ms.
	WriteTimeout time.Duration
	// DialTimeout bounds one dial with its handshakes. Defaults to 10 s; at least 100 ms.
	DialTimeout time.Duration

	// Queues are the queues to consume, at least one, each once.
	Queues []Queue
	// Sender sends the copies. It must not use this consumer's connection. The caller closes it after Run has ended.
	Sender Sender
	// Redeliveries counts the deliveries of messages that were delivered before. Nil: they are counted by the broker
	// and, from the third on, by copies of the message that take its place at the queue's end.
	Redeliveries RedeliveryCounter
	// Management is RabbitMQ's management API, for Stats.Steps. Without it those are unknown.
	Management Management
	// DrainTimeout is how long handlers may go on when Run's context has ended; then their contexts end too. Defaults
	// to 20 s; at least 100 ms.
	DrainTimeout time.Duration
	// Logger gets state changes and dead letters. Nil is slog.Default().
	Logger *slog.Logger
	// Observers hear of what happens, in their order.
	Observers []Observer

	observer Observer // calls each of Observers
}

// Queue describes the consuming of one queue.
type Queue struct {
	// Name is the work queue, at most 255 bytes. It must exist; until it does, it is tried again.
	Name string
	// Handler handles its messages.
	Handler Handler
	// Prefetch is the most messages delivered and not settled, 1 to 10,000. Defaults to 50. An ordered queue has 1.
	Prefetch int
	// Handlers is the most handler calls at a time, 1 to Prefetch. Defaults to 10 or Prefetch, whichever is less.
	Handlers int
	// Rate bounds the handler calls per second, at most 1,000,000. Defaults to [model.None].
	Rate float64
	// Deadline is the time for one handler call. Defaults to 1 min; at least 100 ms and below half of ConsumerTimeout,
	// also for the last of Prefetch messages.
	Deadline time.Duration
	// ConsumerTimeout is the broker's consumer_timeout, or what is in force for this queue. A message that cannot be
	// settled is given back when half of it is over. Defaults to 30 min, which is the broker's default.
	ConsumerTimeout time.Duration
	// Steps are the waits of the queue's retry ladder. Nil means model.DefaultSteps, empty means none: the first
	// failure is the last.
	Steps []time.Duration
	// DeadLetterExchange takes what is given up. It is required, so that nothing is given up in silence.
	DeadLetterExchange string
	// DeadLetterKey is the routing key of dead letters. Defaults to the queue's name.
	DeadLetterKey string
	// Ordered handles one message at a time and retries it in place, by the same steps: a message that fails holds
	// up those behind it. Its ladder has no queues. All its attempts and waits must fit into half of ConsumerTimeout.
	Ordered bool
	// MaxBackoff is the longest wait between two tries where what a message needs is away. Defaults to 30 s; at least
	// 100 ms.
	MaxBackoff time.Duration
	// MaxCrashes is how often a message may be found delivered before and unsettled, each time after it had been
	// handled alone, until it is a dead letter. Defaults to 5, at most 100.
	MaxCrashes int
	// Key returns the business key of a message that carries none. May be nil.
	Key func(*Message) string
}

func (c Config) withDefaults() Config {
	setDefault(&c.VHost, "/")
	setDefault(&c.Name, "transmsg-consumer")
	setDefault(&c.WriteTimeout, confirms.DefaultWriteTimeout)
	setDefault(&c.DialTimeout, confirms.DefaultDialTimeout)
	setDefault(&c.DrainTimeout, DefaultDrainTimeout)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.observer = joined(c.Observers)
	queues := make([]Queue, len(c.Queues))
	for i, q := range c.Queues {
		queues[i] = q.withDefaults()
	}
	c.Queues = queues
	return c
}

// settings is what a dial needs of the config.
func (c *Config) settings() broker.Settings {
	return broker.Settings{
		Addrs: c.Addrs, VHost: c.VHost, Credentials: c.Credentials, TLS: c.TLS, Name: c.Name,
		WriteTimeout: c.WriteTimeout, DialTimeout: c.DialTimeout,
	}
}

// validate checks a config with defaults as a whole.
func (c *Config) validate() error {
	const where = "consumer: config"
	address := c.settings()
	if err := address.Check(where); err != nil {
		return err
	}
	for _, f := range [...]struct {
		name  string
		value time.Duration
	}{
		{"WriteTimeout", c.WriteTimeout}, {"DialTimeout", c.DialTimeout}, {"DrainTimeout", c.DrainTimeout},
	} {
		if f.value < minTimeout {
			return fmt.Errorf("%s: %s %s must be at least %s", where, f.name, f.value, minTimeout)
		}
	}
	switch {
	case len(c.Queues) == 0:
		return fmt.Errorf("%s: Queues is empty: name at least one", where)
	case c.Sender == nil:
		return fmt.Errorf("%s: Sender is nil: give a confirms.Sender, for copies of failed messages", where)
	}
	seen := make(map[string]bool, len(c.Queues))
	for i := range c.Queues {
		q := &c.Queues[i]
		if seen[q.Name] {
			return fmt.Errorf("%s: queue %q is there twice", where, q.Name)
		}
		seen[q.Name] = true
		if err := q.validate(fmt.Sprintf("%s: queue %q", where, q.Name)); err != nil {
			return err
		}
	}
	return nil
}

// ParseURL returns a Config with the address, virtual host, credentials and TLS of an AMQP URL, by the rules of
// confirms.ParseURL. No error prints any of the URL.
func ParseURL(raw string) (Config, error) {
	s, err := broker.ParseURL(raw)
	if err != nil {
		return Config{}, fmt.Errorf("consumer: %w", err)
	}
	return Config{Addrs: s.Addrs, VHost: s.VHost, Credentials: s.Credentials, TLS: s.TLS}, nil
}

func (q Queue) withDefaults() Queue {
	setDefault(&q.Prefetch, DefaultPrefetch)
	if q.Ordered {
		q.Prefetch = 1
	}
	setDefault(&q.Handlers, min(DefaultHandlers, q.Prefetch))
	setDefault(&q.Deadline, DefaultDeadline)
	setDefault(&q.ConsumerTimeout, DefaultConsumerTimeout)
	setDefault(&q.DeadLetterKey, q.Name)
	setDefault(&q.MaxBackoff, DefaultMaxBackoff)
	setDefault(&q.MaxCrashes, DefaultMaxCrashes)
	if q.Steps == nil {
		q.Steps = model.DefaultSteps()
	}
	return q
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// hold is how long a message may be kept unsettled.
func (q *Queue) hold() time.Duration { return q.ConsumerTimeout / 2 }

func (q *Queue) ladder() model.Ladder { return model.Ladder{Queue: q.Name, Steps: q.Steps} }

// validate checks one queue with defaults as a whole.
func (q *Queue) validate(where string) error {
	if err := q.ladder().Check(); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	switch {
	case q.Handler == nil:
		return fmt.Errorf("%s: Handler is nil", where)
	case q.DeadLetterExchange == "":
		return fmt.Errorf("%s: DeadLetterExchange is empty: name the exchange that takes what is given up", where)
	case len(q.DeadLetterExchange) > 255 || len(q.DeadLetterKey) > 255:
		return fmt.Errorf("%s: DeadLetterExchange and DeadLetterKey must be at most 255 bytes", where)
	case q.Prefetch < 1 || q.Prefetch > maxPrefetch:
		return fmt.Errorf("%s: Prefetch %d must be from 1 to %d", where, q.Prefetch, maxPrefetch)
	case q.Handlers < 1 || q.Handlers > q.Prefetch:
		return fmt.Errorf("%s: Handlers %d must be from 1 to Prefetch %d", where, q.Handlers, q.Prefetch)
	case q.Rate < 0 && q.Rate != model.None || q.Rate > maxRate:
		return fmt.Errorf("%s: Rate %g must be from 0 to 1000000 per second", where, q.Rate)
	case q.Deadline < minTimeout || q.Deadline >= q.hold():
		return fmt.Errorf("%s: Deadline %s must be from %s to below half of ConsumerTimeout %s", where,
			q.Deadline, minTimeout, q.ConsumerTimeout)
	case q.MaxBackoff < minTimeout:
		return fmt.Errorf("%s: MaxBackoff %s must be at least %s", where, q.MaxBackoff, minTimeout)
	case q.MaxCrashes < 1 || q.MaxCrashes > maxMaxCrashes:
		return fmt.Errorf("%s: MaxCrashes %d must be from 1 to %d", where, q.MaxCrashes, maxMaxCrashes)
	}
	if last := time.Duration((q.Prefetch+q.Handlers-1)/q.Handlers) * q.Deadline; last >= q.hold() {
		return fmt.Errorf("%s: the last of Prefetch %d messages may wait %s for its turn (Handlers %d, Deadline %s), "+
			"which must be below half of ConsumerTimeout %s: lower Prefetch", where, q.Prefetch, last, q.Handlers,
			q.Deadline, q.ConsumerTimeout)
	}
	return q.checkInPlace(where)
}

// checkInPlace says whether all attempts of an ordered queue fit below the consumer timeout.
func (q *Queue) checkInPlace(where string) error {
	if !q.Ordered {
		return nil
	}
	total := time.Duration(len(q.Steps)+1) * q.Deadline
	for _, d := range q.Steps {
		total += d
	}
	if total >= q.hold() {
		return fmt.Errorf("%s: an ordered queue retries in place: its steps and %d times Deadline %s take %s, "+
			"which must be below half of ConsumerTimeout %s", where, len(q.Steps)+1, q.Deadline, total,
			q.ConsumerTimeout)
	}
	return nil
}
