package compensator_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/compensator/redislocker"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
	"github.com/transmsg/transmsg/store/mysql"
)

// A compensator embedded in a service, one of a replica set: Redis keeps their runs
// apart, and without Redis they go on by their claims.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))

	run := func() error {
		store, err := gormstore.Open(ctx, mysql.DSN(os.Getenv("STORE")), gormstore.Options{})
		if err != nil {
			return err
		}
		defer store.Close()
		broker, err := confirms.ParseURL(os.Getenv("AMQP"))
		if err != nil {
			return err
		}
		sender, err := confirms.Open(broker)
		if err != nil {
			return err
		}
		defer func() {
			closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel()
			_ = sender.Close(closing)
		}()
		client := redis.NewClient(&redis.Options{Addr: "redis:6379"})
		defer client.Close()
		locker, err := redislocker.New(redislocker.Config{Client: client, Logger: log})
		if err != nil {
			return err
		}
		c, err := compensator.New(compensator.Config{
			Store: store, Sender: sender, Locker: locker, Logger: log,
			Policy: model.Policy{MaxAttempts: 20},
			Rate:   2000, // messages per second
		})
		if err != nil {
			return err
		}
		return c.Run(ctx) // until a signal
	}
	if err := run(); err != nil && !errors.Is(err, model.ErrNotDrained) {
		log.Error("compensator ended", "error", err)
	}
}
