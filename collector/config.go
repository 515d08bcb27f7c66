package collector

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/broker"
	"github.com/transmsg/transmsg/model"
)

// Defaults of [Config].
const (
	DefaultName          = "transmsg-collector"
	DefaultUncollectable = "uncollectable"
	DefaultService       = "dead-letters"
	DefaultPrefetch      = 100

	maxPrefetch = 1000
	maxName     = 255
)

// Store keeps dead letters. It must be safe for concurrent use.
type Store interface {
	// Collect stores letters, and passes over those that are there. An [*model.InvalidError] names a letter that it
	// cannot take; nothing is stored then.
	Collect(ctx context.Context, letters []model.DeadLetter) error
}

// Sender sends the copies of what cannot be stored. *confirms.Sender is one.
type Sender interface {
	// Reserve waits for room for n messages of together so many bytes.
	Reserve(ctx context.Context, n int, bytes int64) error
	// Send takes a message on; its handler gets the one outcome.
	Send(send confirms.Send)
	// FrameMax is the frame size in force, in bytes.
	FrameMax() int
}

// Config describes a [Collector]. Addrs, Credentials, Queues, Store and Sender have no default.
type Config struct {
	// Addrs are the "host:port" of the brokers of one cluster.
	Addrs []string
	// VHost is the virtual host, not percent-encoded. Defaults to "/".
	VHost string
	// Credentials returns user and password; it is asked at every dial.
	Credentials func(ctx context.Context) (user, password string, err error)
	// TLS returns the TLS settings and is asked at every dial. Nil means plain AMQP.
	TLS func(ctx context.Context) (*tls.Config, error)
	// Name is shown as the connection's name in the management UI. Defaults to "transmsg-collector".
	Name string
	// WriteTimeout is how long the socket may take no byte. Defaults to 5 s.
	WriteTimeout time.Duration
	// DialTimeout bounds one dial with its handshakes. Defaults to 10 s.
	DialTimeout time.Duration

	// Queues are the dead-letter queues, at least one, each once. One that is missing is tried again.
	Queues []string
	// Store keeps the letters.
	Store Store
	// Sender sends what cannot be stored to Uncollectable. The caller closes it after Run has ended.
	Sender Sender
	// Uncollectable is the queue for what cannot be stored. Defaults to "uncollectable".
	Uncollectable string
	// Service is stored with the letters: replays are this service's rows, for the compensators that send its messages.
	// Defaults to "dead-letters".
	Service string
	// Prefetch is the most letters of one queue in memory, 1 to 1,000. Defaults to 100.
	Prefetch int
	// Alert is told of what cannot be stored, once for each letter. It must not block. Nil tells nobody but the log.
	Alert func(model.Alert)
	// Logger gets state changes. Nil is slog.Default().
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	setDefault(&c.VHost, "/")
	setDefault(&c.Name, DefaultName)
	setDefault(&c.WriteTimeout, confirms.DefaultWriteTimeout)
	setDefault(&c.DialTimeout, confirms.DefaultDialTimeout)
	setDefault(&c.Uncollectable, DefaultUncollectable)
	setDefault(&c.Service, DefaultService)
	setDefault(&c.Prefetch, DefaultPrefetch)
	if c.Alert == nil {
		c.Alert = func(model.Alert) {}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (c *Config) settings() broker.Settings {
	return broker.Settings{
		Addrs: c.Addrs, VHost: c.VHost, Credentials: c.Credentials, TLS: c.TLS, Name: c.Name,
		WriteTimeout: c.WriteTimeout, DialTimeout: c.DialTimeout, Raw: true,
	}
}

func (c *Config) validate() error {
	settings := c.settings()
	if err := settings.Check("collector: config"); err != nil {
		return err
	}
	switch {
	case c.Store == nil:
		return fmt.Errorf("collector: config: Store is nil: give the store that keeps the letters")
	case c.Sender == nil:
		return fmt.Errorf("collector: config: Sender is nil: give a confirms.Sender")
	case len(c.Queues) == 0:
		return fmt.Errorf("collector: config: Queues is empty: name a dead-letter queue")
	case c.Prefetch < 1 || c.Prefetch > maxPrefetch:
		return fmt.Errorf("collector: config: Prefetch %d must be 1 to %d", c.Prefetch, maxPrefetch)
	}
	if err := model.CheckService(c.Service); err != nil {
		return fmt.Errorf("collector: config: Service: %w", err)
	}
	for i, q := range append(slices.Clone(c.Queues), c.Uncollectable) {
		switch {
		case q == "" || len(q) > maxName || !utf8.ValidString(q) || strings.ContainsRune(q, 0):
			return fmt.Errorf("collector: config: queue %q must have a name of 1 to %d bytes of UTF-8 without NUL",
				q, maxName)
		case i < len(c.Queues) && slices.Contains(c.Queues[:i], q):
			return fmt.Errorf("collector: config: queue %q is there twice", q)
		case i < len(c.Queues) && q == c.Uncollectable:
			return fmt.Errorf("collector: config: queue %q is the one for what cannot be collected", q)
		}
	}
	return nil
}
