package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/consumer"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

// intake is a consumer of this process with what its handler was given.
type intake struct {
	broker *amqptest.Client
	queue  consumer.Queue
	ladder model.Ladder
	answer func(context.Context, *consumer.Message) error

	mu     sync.Mutex
	times  map[string][]time.Time // of the calls, by id
	tries  map[string][]int       // their attempts
	states map[consumer.State]int // how often each began

	*consumer.Consumer
	stop func() error
}

func newIntake(broker *amqptest.Client, queue string, steps []time.Duration) *intake {
	in := &intake{
		broker: broker, ladder: model.Ladder{Queue: queue, Steps: steps},
		times: map[string][]time.Time{}, tries: map[string][]int{}, states: map[consumer.State]int{},
	}
	in.queue = consumer.Queue{
		Name: queue, DeadLetterExchange: "dead", Steps: steps, Deadline: 20 * time.Second, Handler: in.handle,
		MaxBackoff: 2 * time.Second,
	}
	return in
}

func (in *intake) handle(ctx context.Context, m *consumer.Message) error {
	in.mu.Lock()
	in.times[m.ID] = append(in.times[m.ID], time.Now())
	in.tries[m.ID] = append(in.tries[m.ID], m.Attempt)
	in.mu.Unlock()
	return in.answer(ctx, m)
}

// start consumes until stop is called.
func (in *intake) start(url string) error {
	c, closeAll, err := openConsumer(url, in.queue, consumer.Observer{StateChanged: func(h consumer.QueueHealth) {
		in.mu.Lock()
		in.states[h.State]++
		in.mu.Unlock()
	}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	in.Consumer = c
	in.stop = sync.OnceValue(func() error {
		cancel()
		err := <-ended
		if closing := closeAll(); err == nil {
			err = closing
		}
		return err
	})
	return nil
}

func (in *intake) publish(ctx context.Context, ids ...string) error {
	for _, id := range ids {
		m := amqp.Publishing{MessageId: id, DeliveryMode: amqp.Persistent, Body: []byte(id)}
		if err := in.broker.Publish(ctx, "", in.ladder.Queue, m); err != nil {
			return err
		}
	}
	return nil
}

// calls returns the attempts and times of one message's handler calls.
func (in *intake) calls(id string) ([]int, []time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return slices.Clone(in.tries[id]), slices.Clone(in.times[id])
}

// seen counts how many of the ids a handler was given.
func (in *intake) seen(ids []string) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := 0
	for _, id := range ids {
		n += btoi(len(in.times[id]) > 0)
	}
	return n
}

// began counts how often the queue came into a state.
func (in *intake) began(s consumer.State) int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.states[s]
}

// is waits for a state.
func (in *intake) is(ctx context.Context, s consumer.State) error {
	return until(ctx, time.Minute, "the queue is "+string(s), func(context.Context) (bool, error) {
		return in.Health()[0].State == s, nil
	})
}

func numbered(prefix string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s-%d", prefix, i)
	}
	return out
}
