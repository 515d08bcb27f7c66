package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/consumer/effect"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/store/gormstore"
)

// consumeOrder is what a consuming process is told.
type consumeOrder struct {
	Dialect, DSN, AMQP string
	Queues, Names      []string // queues and their consumers' names
	Dead               string
	Seed               uint64
}

// errByChance is the failure of a handler that goes round the ladder.
var errByChance = errors.New("a failure by chance")

// consumeChild consumes until its input ends, or it is killed.
func consumeChild(ctx context.Context, data []byte) error {
	var o consumeOrder
	if err := json.Unmarshal(data, &o); err != nil {
		return err
	}
	store, err := anystore.Open(ctx, o.DSN, gormstore.Options{})
	if err != nil {
		return err
	}
	table, err := openTable(o.Dialect, o.DSN)
	if err != nil {
		return err
	}
	sending, err := confirms.ParseURL(o.AMQP)
	if err != nil {
		return err
	}
	sender, err := confirms.Open(sending)
	if err != nil {
		return err
	}
	cfg, err := consumer.ParseURL(o.AMQP)
	if err != nil {
		return err
	}
	cfg.Sender = sender
	counters := effect.Counters{}
	cfg.Redeliveries = counters
	for i, queue := range o.Queues {
		once, err := effect.New(effect.Config{Consumer: o.Names[i], Store: store})
		if err != nil {
			return err
		}
		counters[queue] = once
		cfg.Queues = append(cfg.Queues, o.queue(queue, o.Names[i], once, table))
	}
	c, err := consumer.New(cfg)
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its end is the order to stop
		stop()
	}()
	fmt.Println("up")
	err = c.Run(running)
	return errors.Join(err, sender.Close(ctx), store.Close(), table.db.Close())
}

// queue has an effect of a few milliseconds, which fails now and then after it was made.
func (o *consumeOrder) queue(queue, name string, once *effect.Once, t *table) consumer.Queue {
	var mu sync.Mutex
	r := rand.New(rand.NewPCG(o.Seed, uint64(len(name))))
	chance := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return r.IntN(n)
	}
	insert := t.rebind("INSERT INTO effects (consumer, message) VALUES (?, ?)")
	handle := once.InTx(t.db, nil, func(ctx context.Context, tx *sql.Tx, _ *publisher.Tx, m *consumer.Message) error {
		if _, err := tx.ExecContext(ctx, insert, name, m.ID); err != nil {
			return err
		}
		time.Sleep(time.Duration(chance(4)) * time.Millisecond) // the handler's work
		if chance(50) == 0 && m.Attempt == 1 {
			return errByChance
		}
		return nil
	})
	return consumer.Queue{
		Name: queue, DeadLetterExchange: o.Dead, Steps: effectSteps(), Prefetch: 20, MaxCrashes: 100,
		Handler: func(ctx context.Context, m *consumer.Message) error {
			err := handle(ctx, m)
			switch { // one write each, of less than a pipe's atomic size
			case consumer.IsSkipped(err):
				fmt.Println("skipped")
			case consumer.IsBusy(err):
				fmt.Println("busy")
			}
			return err
		},
	}
}
