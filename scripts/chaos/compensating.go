package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/compensator/redislocker"
)

// runCompensator does what the daemon does, until ctx ends.
func runCompensator(ctx context.Context, c *child) (err error) {
	logging.Disable() // the client's own log; the locker says when Redis is down
	options, err := redis.ParseURL(c.spec.Redis)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	client := redis.NewClient(options)
	defer func() { err = errors.Join(err, client.Close()) }()
	locker, err := redislocker.New(redislocker.Config{
		Client: client, TTL: lockTTL, Slots: 2, Logger: slog.New(redisEvents{c.book}),
	})
	if err != nil {
		return err
	}
	comp, err := compensator.New(compensator.Config{
		Store: c.store, Sender: c.sender, Locker: locker, Policy: c.spec.policy(), Instance: c.spec.Name,
		Interval: 300 * time.Millisecond, BatchRows: 200, Lease: claimLease, Logger: c.log,
		Observers: []compensator.Observer{{
			Restored:   func(_, id string) { c.book.event(wordRestored, id) },
			LockLost:   func(cause error) { c.book.event(wordLockLost, cause.Error()) },
			StoreError: func(op string, err error) { c.book.event(wordStoreError, op+" "+err.Error()) },
		}},
	})
	if err != nil {
		return err
	}
	ended := comp.Run(ctx)
	c.book.event(wordStopped, fmt.Sprint(ended))
	return notDrained(ended)
}

// redisEvents is a slog.Handler that writes what the locker logs as events.
type redisEvents struct{ book *sendLog }

// Enabled implements slog.Handler.
func (redisEvents) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h redisEvents) Handle(_ context.Context, r slog.Record) error {
	h.book.event(wordRedis, r.Message)
	return nil
}

// WithAttrs implements slog.Handler.
func (h redisEvents) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements slog.Handler.
func (h redisEvents) WithGroup(string) slog.Handler { return h }
