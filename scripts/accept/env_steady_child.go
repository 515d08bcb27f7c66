package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/transmsg/transmsg/model"
)

// steadyOrder is what a steady publisher is told at its start.
type steadyOrder struct {
	Spec     serviceSpec
	Exchange string
	Seed     uint64
	Workers  int
	MaxBody  int
	Pause    time.Duration // the most that a worker waits between its messages
}

// What a steady publisher is told while it runs, a line each.
const (
	steadyGo    = "go"    // publish until it is held
	steadyHold  = "hold"  // stop publishing, wait for all outcomes
	steadyCount = "count" // say how many goroutines there are
	steadyBurst = "burst" // publish so many in one call once the broker is ready, wait for all outcomes
)

// steadyPublisher is the other side of steady. It says "stored ID" for each message
// that was acknowledged, and answers every order in the order of the orders.
type steadyPublisher struct {
	steadyOrder
	svc    *service
	serial atomic.Int64
	failed atomic.Pointer[error] // the first
}

// steadyChild runs until its input ends, and then closes as a service does.
func steadyChild(ctx context.Context, data []byte) error {
	s := &steadyPublisher{}
	if err := json.Unmarshal(data, &s.steadyOrder); err != nil {
		return err
	}
	var err error
	if s.svc, err = openService(ctx, s.Spec); err != nil {
		return err
	}
	if err := s.svc.ready(ctx); err != nil {
		return err
	}
	fmt.Println("up")
	hold := func() {}
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		word, arg, _ := strings.Cut(orders.Text(), " ")
		switch word {
		case steadyGo:
			hold = s.work(ctx)
		case steadyHold:
			hold()
			fmt.Println("held")
		case steadyCount:
			fmt.Println("count", runtime.NumGoroutine())
		case steadyBurst:
			s.burst(ctx, arg)
		}
	}
	hold()
	if first := s.failed.Load(); first != nil {
		return *first
	}
	return s.svc.close(ctx)
}

// work starts the workers; hold ends them when their messages have outcomes.
func (s *steadyPublisher) work(ctx context.Context) (hold func()) {
	working, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	for i := range s.Workers {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(s.Seed, uint64(i)))
			for working.Err() == nil {
				if err := s.publish(ctx, []model.Message{s.message(r)}, nil); err != nil {
					s.failed.CompareAndSwap(nil, &err)
					return
				}
				select {
				case <-time.After(time.Duration(r.Int64N(int64(s.Pause)))): // The rate.
				case <-working.Done():
				}
			}
		})
	}
	return func() { stop(); workers.Wait() }
}

func (s *steadyPublisher) message(r *rand.Rand) model.Message {
	n := s.serial.Add(1)
	return model.Message{
		Exchange: s.Exchange, RoutingKey: "key", Body: bytesOf(r, size(r, s.MaxBody)),
		Properties: model.Properties{CorrelationID: fmt.Sprint(n)},
	}
}

// publish publishes in one call and counts the outcomes by kind and code.
func (s *steadyPublisher) publish(ctx context.Context, batch []model.Message, outcomes map[string]int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	receipts, err := s.svc.pub.PublishBatch(ctx, batch)
	if err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	for _, r := range receipts {
		fmt.Println("stored", r.ID())
	}
	for _, r := range receipts {
		o, err := r.Wait(ctx)
		if err != nil {
			return fmt.Errorf("outcome of %s: %w", r.ID(), err)
		}
		if outcomes != nil {
			outcomes[o.Kind.String()+" "+string(o.Code)]++
		}
	}
	return nil
}

func (s *steadyPublisher) burst(ctx context.Context, arg string) {
	var n int
	outcomes := map[string]int{}
	_, err := fmt.Sscan(arg, &n)
	if err == nil {
		err = s.svc.ready(ctx)
	}
	if err == nil {
		batch := make([]model.Message, n)
		r := rand.New(rand.NewPCG(s.Seed, uint64(s.serial.Load())))
		for i := range batch {
			batch[i] = s.message(r)
			// A route of its own: one whose confirms do not come waits for probes, and its next
			// messages are not sent.
			batch[i].RoutingKey = batch[0].Properties.CorrelationID
		}
		err = s.publish(ctx, batch, outcomes)
	}
	if err != nil {
		s.failed.CompareAndSwap(nil, &err)
	}
	line, _ := json.Marshal(outcomes) // a map of numbers
	fmt.Println("burst", string(line))
}
