package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

const (
	crashNeighbours = 49
	crashPrefetch   = 50
	crashRestarts   = 25
	crashBacklog    = 300
	// crashMost is the most ends of a process that one message may cause: three deliveries that prove nothing, the
	// first among others, and five with a count of their own.
	crashMost = 9
)

// crashPoisonCheck kills consuming processes: by a message each time, and from outside.
func crashPoisonCheck() check {
	return check{
		name: "crash-poison",
		about: "one message ends the process each time, 49 neighbours: it alone is a dead letter; 25 kills over a " +
			"full prefetch: nothing is a dead letter that no handler saw",
		once: true,
		run: func(ctx context.Context, e *env) (figures, error) {
			c := &crash{env: e, figs: figures{}}
			for _, part := range []func(context.Context) error{c.poison, c.restarts} {
				if err := c.inVHost(ctx, part); err != nil {
					return c.figs, err
				}
			}
			return c.figs, nil
		},
	}
}

type crash struct {
	*env
	figs   figures
	url    string
	broker *amqptest.Client
	board  *board
	ladder model.Ladder
}

// inVHost runs a part in a fresh virtual host.
func (c *crash) inVHost(ctx context.Context, part func(context.Context) error) error {
	url, drop, err := amqptest.NewVHost(ctx)
	if err != nil {
		return err
	}
	c.url, c.board = url, newBoard()
	c.ladder = model.Ladder{Queue: "work", Steps: []time.Duration{time.Second}}
	if c.broker, err = amqptest.Dial(url); err != nil {
		return errors.Join(err, drop())
	}
	c.figs["rabbitmq"] = c.broker.Version()
	err = c.broker.Work(c.ladder, "dead")
	if err == nil {
		err = part(ctx)
	}
	return errors.Join(err, c.broker.Close(), drop())
}

func (c *crash) publish(ctx context.Context, ids []string) error {
	for _, id := range ids {
		m := amqp.Publishing{MessageId: id, DeliveryMode: amqp.Persistent, Body: bytesOf(c.Rand, 100)}
		if err := c.broker.Publish(ctx, "", c.ladder.Queue, m); err != nil {
			return err
		}
	}
	return nil
}

// start starts a consuming process; ended is closed when it said its last.
func (c *crash) start(handlers int, sleep time.Duration) (p *child, ended chan struct{}, err error) {
	p, err = startChild("consume", consumerOrder{
		URL: c.url, Queue: c.ladder.Queue, Dead: "dead", Steps: c.ladder.Steps, Prefetch: crashPrefetch,
		Handlers: handlers, Sleep: sleep,
	})
	if err != nil {
		return nil, nil, err
	}
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		c.board.listen(p.out)
	}()
	return p, ended, nil
}

// poison starts a process again each time the message has ended it, until all have their ends.
func (c *crash) poison(ctx context.Context) error {
	ids := make([]string, 0, crashNeighbours+1)
	for i := range crashNeighbours {
		ids = append(ids, fmt.Sprint("m", i))
	}
	at := c.Rand.IntN(len(ids))
	ids = append(ids[:at], append([]string{killID}, ids[at:]...)...)
	if err := c.publish(ctx, ids); err != nil {
		return err
	}
	ends := 0
	for over := false; !over; ends++ {
		p, ended, err := c.start(5, 5*time.Millisecond)
		if err != nil {
			return err
		}
		err = until(ctx, time.Minute, "the process has ended or all is done", func(context.Context) (bool, error) {
			select {
			case <-ended:
				return true, nil
			default:
			}
			n, err := c.broker.Depth("dead")
			over = n > 0 && c.board.finished() == crashNeighbours
			return over, err
		})
		if over {
			ends--
			err = errors.Join(err, p.kill())
		}
		<-ended
		if err := errors.Join(err, p.wait()); err != nil {
			return err
		}
		if ends > crashMost {
			c.Breaches.Add("the message has ended %d processes", ends)
			break
		}
	}
	letters, err := c.broker.Drain("dead")
	if err != nil {
		return err
	}
	c.Breaches.Equal("dead letters", len(letters), 1)
	for _, l := range letters {
		c.Breaches.Equal("the dead letter", l.MessageId, killID)
		c.Breaches.Equal("its cause", fmt.Sprint(l.Headers[model.HeaderCause]), model.CauseCrashed)
	}
	c.Breaches.Equal("neighbours handled", c.board.finished(), crashNeighbours)
	most := 0
	for _, id := range ids {
		if id != killID {
			most = max(most, c.board.callsOf(id))
		}
	}
	c.Breaches.AtMost("handler calls of one neighbour", int64(most), 2)
	c.figs["processes_ended"], c.figs["most_calls_of_a_neighbour"] = ends, most
	return nil
}

// restarts kills processes whose buffers are full while handlers sleep.
func (c *crash) restarts(ctx context.Context) error {
	ids := make([]string, crashBacklog)
	for i := range ids {
		ids[i] = fmt.Sprint("r", i)
	}
	if err := c.publish(ctx, ids); err != nil {
		return err
	}
	for range crashRestarts {
		p, ended, err := c.start(10, 30*time.Millisecond)
		if err != nil {
			return err
		}
		before, some := c.board.begun(), 1+c.Rand.IntN(12)
		err = until(ctx, time.Minute, "handlers have begun", func(context.Context) (bool, error) {
			return c.board.begun() >= before+some || c.board.finished() == crashBacklog, nil
		})
		err = errors.Join(err, p.kill())
		<-ended
		if err := errors.Join(err, p.wait()); err != nil {
			return err
		}
	}
	left := crashBacklog - c.board.finished()
	p, ended, err := c.start(10, 0)
	if err != nil {
		return err
	}
	err = until(ctx, 2*time.Minute, "all have their ends", func(context.Context) (bool, error) {
		n, err := c.broker.Depth("dead")
		return n+c.board.finished() >= crashBacklog, err
	})
	err = errors.Join(err, p.in.Close()) // it drains
	<-ended
	if err := errors.Join(err, p.cmd.Wait()); err != nil {
		return err
	}
	letters, err := c.broker.Drain("dead")
	if err != nil {
		return err
	}
	for _, l := range letters {
		c.Breaches.Check(c.board.callsOf(l.MessageId) > 0, "%s is a dead letter (%v) and no handler saw it",
			l.MessageId,
			l.Headers[model.HeaderCause])
	}
	c.Breaches.AtLeast("messages handled", int64(c.board.finished()+len(letters)), crashBacklog)
	c.Breaches.Equal("dead letters after restarts", len(letters), 0)
	c.figs["restarts"], c.figs["unhandled_after_restarts"] = crashRestarts, left
	return nil
}
