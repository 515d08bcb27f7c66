package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// spareGoroutines is what a process may have beyond its start: the pools of its database
	// grow with use, by up to two for each connection.
	spareGoroutines = 40
	// baselineLimit is for the end of retired channels and broken dials.
	baselineLimit = time.Minute
)

// countGoroutines writes their number down each second until the returned function is
// called.
func (c *child) countGoroutines() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				c.book.event(wordGoroutines, fmt.Sprint(runtime.NumGoroutine()))
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// channelsEach is how many channels a connection has at most: one to publish on, and one to
// ask whether an exchange is there.
const channelsEach = 2

// baseline waits, after the last fault and under traffic, until every process has one
// connection with its channels and about as many goroutines as at its start, and says what
// has not come back.
func (r *run) baseline(ctx context.Context) ([]string, error) {
	var left []string
	// The error is in what is left.
	_ = until(ctx, baselineLimit, "everything is at its baseline", func() bool {
		left = nil
		n, want := 0, r.connections()
		for _, l := range r.links {
			n += l.Conns()
		}
		if n != want {
			left = append(left, fmt.Sprintf("%d connections to the broker, want %d: one for each process, and one "+
				"more for each consumer", n, want))
		}
		for _, role := range []string{rolePublisher, roleCompensator, roleConsumer} {
			for _, m := range r.fleet.living(role) {
				first, last := r.book.goroutines(m.spec.Name)
				if last > first+spareGoroutines {
					left = append(left, fmt.Sprintf("%s has %d goroutines, at its start %d", m.spec.Name, last, first))
				}
			}
		}
		return len(left) == 0
	})
	var channels []int
	err := until(ctx, baselineLimit, "the channels are at their baseline", func() (ok bool) {
		var err error
		channels, err = r.channels()
		return err == nil && len(channels) == r.connections() &&
			slices.Min(channels) > 0 && slices.Max(channels) <= channelsEach
	})
	if err != nil {
		left = append(left, fmt.Sprintf("channels of each connection at the broker: %v, want 1 to %d of %d", channels,
			channelsEach, r.connections()))
	}
	return left, ctx.Err()
}

// connections are how many all processes have together: a consumer has one more, for its copies.
func (r *run) connections() int {
	if r.opts.consumers {
		return publishers + compensators + 2*consumers
	}
	return publishers + compensators
}

// channels are how many channels each of the processes' connections has at the broker.
func (r *run) channels() ([]int, error) {
	out, err := r.node.Ctl("list_connections", "--formatter", "json", "user", "channels")
	if err != nil {
		return nil, err
	}
	var list []struct {
		User     string
		Channels int
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("list_connections: %w", err)
	}
	var n []int
	for _, c := range list {
		if c.User == brokerUser {
			n = append(n, c.Channels)
		}
	}
	return n, nil
}

// goroutines are the first number that a process wrote down, and the last.
func (b *book) goroutines(proc string) (first, last int) {
	_ = b.refresh() // an unreadable record is an error at the end of the run
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.numbers[proc]
	return n[0], n[1]
}

// noteGoroutines keeps the first and the last number. Called with mu held.
func (b *book) noteGoroutines(proc, text string) error {
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%s: goroutines %q", proc, text)
	}
	was := b.numbers[proc]
	if was[0] == 0 {
		was[0] = n
	}
	was[1] = n
	b.numbers[proc] = was
	return nil
}
