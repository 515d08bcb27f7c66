package transmsg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/embed"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/store/gormstore"
)

// Config configures an [Outbox]. Service, Store and AMQP are required; the zero value of every
// other field is its default.
type Config struct {
	// Service owns the messages: 1 to 64 bytes of UTF-8 without white space at either end.
	// Compensators serve by it.
	Service string
	// Store is the database of the messages: mysql.DSN(dsn), which opens a small pool of its
	// own, or the service's own pool by mysql.SQL(db) or mysql.Gorm(gdb); the same of packages
	// postgres and sqlite, all below store/. The schema must be there: `transmsg migrate up`.
	Store gormstore.Source
	// StoreOptions tune the store: a prefix of the tables' names, the size of its own pool, TLS
	// and rotated credentials.
	StoreOptions gormstore.Options
	// AMQP is the broker's URL, amqp://user:password@host:5672/vhost or amqps://, special
	// characters percent-encoded. The broker need not answer when [Open] is called.
	AMQP string
	// Policy is backoff and the limits of trying. Give the compensator the same.
	Policy model.Policy
	// Compensate runs a compensator in this process, with a connection to the broker of its
	// own, for this service alone: a value of compensator.Config, without Store, Sender and
	// Services. Nil means that `transmsg compensator` runs elsewhere.
	Compensate Compensator
	// Metrics counts what publisher, senders and compensator do; *metrics.Metrics is one. Nil means none.
	Metrics Metrics
	// Logger receives failed sends, lost connections and failed writes. Nil is slog.Default().
	Logger *slog.Logger
}

// Compensator is what Config.Compensate takes; compensator.Config is one.
type Compensator interface {
	// Embed returns a run that works until ctx ends and drains until hard does.
	Embed(embed.Parts) (run func(ctx, hard context.Context) error, err error)
}

// Metrics is what Config.Metrics takes; *metrics.Metrics is one.
type Metrics interface {
	OpenSender(confirms.Config) (*confirms.Sender, error)
	OpenPublisher(publisher.Config) (*publisher.Publisher, error)
}

// none opens without metrics.
type none struct{}

// OpenSender implements [Metrics].
func (none) OpenSender(c confirms.Config) (*confirms.Sender, error) { return confirms.Open(c) }

// OpenPublisher implements [Metrics].
func (none) OpenPublisher(c publisher.Config) (*publisher.Publisher, error) { return publisher.Open(c) }

// withDefaults refuses what can be judged before anything is opened.
func (c Config) withDefaults() (Config, confirms.Config, error) {
	var broker confirms.Config
	if err := model.CheckService(c.Service); err != nil {
		return c, broker, fmt.Errorf("config: Service %q %w; name the service that owns the messages", c.Service, err)
	}
	if err := c.Store.Err(); err != nil {
		return c, broker, fmt.Errorf("config: Store: %w", err)
	}
	if c.AMQP == "" {
		return c, broker, errors.New("config: AMQP is missing: give amqp://user:password@host:5672/vhost")
	}
	broker, err := confirms.ParseURL(c.AMQP)
	if err != nil {
		return c, broker, fmt.Errorf("config: AMQP: %w", err)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.StoreOptions.Logger == nil {
		c.StoreOptions.Logger = c.Logger
	}
	if c.Metrics == nil {
		c.Metrics = none{}
	}
	broker.Logger = c.Logger
	return c, broker, nil
}
