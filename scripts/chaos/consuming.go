package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/consumer/effect"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
)

const (
	// deadLetters is the exchange and the queue of what consumers give up.
	deadLetters = "dead"
	// effectTable has no unique key, which would hide a second effect.
	effectTable   = "CREATE TABLE chaos_effect (message VARCHAR(64) NOT NULL)"
	handledSuffix = ".handled"
)

// workLadder is the ladder of the one queue that processes of the product consume.
func workLadder() model.Ladder {
	return model.Ladder{Queue: queueQuorum, Steps: []time.Duration{time.Second, 3 * time.Second, 9 * time.Second}}
}

// errByChance is a failure after the effect was made, which goes round the ladder.
var errByChance = errors.New("a failure by chance")

// handledLog is the record of one process's handler calls, each line one write to the kernel:
//
//	B <time> <number> <id> <attempt> <fresh or redelivered>   a call begins
//	E <time> <number> <answer>                                it has ended
//	C <time> <id>                                             its body is not the one that was published
//	M <time> <id>                                             the mark at the queue's end
type handledLog struct {
	f *os.File

	mu     sync.Mutex
	number int64
}

func (l *handledLog) line(format string, args ...any) {
	if _, err := l.f.WriteString(fmt.Sprintf(format, args...) + "\n"); err != nil {
		panic(fmt.Sprintf("record of handled messages: %v", err)) // one with holes would prove nothing
	}
}

func (l *handledLog) begin(m *consumer.Message) int64 {
	l.mu.Lock()
	l.number++
	n := l.number
	l.mu.Unlock()
	how := wordFresh
	if m.Redelivered {
		how = wordRedelivered
	}
	l.line("B %d %d %s %d %s", time.Now().UnixNano(), n, m.ID, m.Attempt, how)
	return n
}

// The words of a delivery, and of the event that a copy is not confirmed or the subscription was ended.
const (
	wordStuck       = "stuck"
	wordFresh       = "fresh"
	wordRedelivered = "redelivered"
)

// consuming is a process that consumes.
type consuming struct {
	*child
	handled *handledLog
	db      *sql.DB
	once    *effect.Once
}

// runConsumer handles the messages of the work queue with one effect each, until ctx ends.
func runConsumer(ctx context.Context, c *child) error {
	f, err := os.OpenFile(c.spec.path(handledSuffix), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() // every line was a write of its own
	db, err := openPool(c.spec.Dialect, c.spec.DSN)
	if err != nil {
		return err
	}
	defer db.Close() // nothing is open any more
	once, err := effect.New(effect.Config{Consumer: serviceName, Store: c.store})
	if err != nil {
		return err
	}
	cfg, err := consumer.ParseURL(c.spec.AMQP)
	if err != nil {
		return err
	}
	k := &consuming{child: c, handled: &handledLog{f: f}, db: db, once: once}
	cfg.Name, cfg.Logger, cfg.Redeliveries = c.spec.Name, c.log, once
	cfg.Sender = c.sender.Sender // copies are no sends of the publisher's
	cfg.Observers = []consumer.Observer{k.observer()}
	cfg.Queues = []consumer.Queue{{
		Name: queueQuorum, Steps: workLadder().Steps, DeadLetterExchange: deadLetters, Prefetch: 30,
		MaxBackoff: 3 * time.Second, Deadline: 20 * time.Second, Handler: k.recorded(k.handler()),
	}}
	one, err := consumer.New(cfg)
	if err != nil {
		return err
	}
	ended := one.Run(ctx)
	c.book.event(wordStopped, fmt.Sprint(ended))
	return notDrained(ended)
}

func (k *consuming) observer() consumer.Observer {
	return consumer.Observer{
		Disconnected: func(_ uint64, err error) { k.book.event(wordDisconnected, err.Error()) },
		StateChanged: func(h consumer.QueueHealth) {
			if h.State == consumer.StateStuck || h.State == consumer.StateMissing {
				k.book.event(wordStuck, h.Reason)
			}
		},
	}
}

// handler has one effect for each message. One message in sixteen fails at first, after its effect was made.
func (k *consuming) handler() consumer.Handler {
	insert := "INSERT INTO chaos_effect (message) VALUES (?)"
	if k.spec.Dialect == storePostgres {
		insert = "INSERT INTO chaos_effect (message) VALUES ($1)"
	}
	return k.once.InTx(k.db, nil, func(ctx context.Context, tx *sql.Tx, _ *publisher.Tx, m *consumer.Message) error {
		if _, err := tx.ExecContext(ctx, insert, m.ID); err != nil {
			return err
		}
		if m.Attempt == 1 && m.ID[len(m.ID)-1] == '7' {
			return errByChance
		}
		return nil
	})
}

// recorded writes each call of handle down, before and after.
func (k *consuming) recorded(handle consumer.Handler) consumer.Handler {
	return func(ctx context.Context, m *consumer.Message) error {
		if m.Properties.Type == markType {
			k.handled.line("M %d %s", time.Now().UnixNano(), m.ID)
			return nil
		}
		if !bytes.Equal(m.Body, bodyOf(m.ID)) {
			k.handled.line("C %d %s", time.Now().UnixNano(), m.ID)
		}
		n := k.handled.begin(m)
		err := handle(ctx, m)
		k.handled.line("E %d %d %s", time.Now().UnixNano(), n, answerOf(err))
		return err
	}
}

func answerOf(err error) string {
	switch {
	case err == nil:
		return "done"
	case consumer.IsSkipped(err):
		return "skipped"
	case consumer.IsBusy(err):
		return "busy"
	case consumer.IsUnavailable(err):
		return "unavailable"
	default:
		return "failed"
	}
}
