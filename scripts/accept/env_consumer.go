package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/consumer"
)

// consumerOrder is what a consuming process is told at its start.
type consumerOrder struct {
	URL, Queue, Dead   string
	Steps              []time.Duration
	Prefetch, Handlers int
	Sleep              time.Duration // of each handler call
}

// killID begins the id of a message that ends the process.
const killID = "kill"

// consumerChild consumes until its input ends. It says "call ID ATTEMPT" before it begins with a message and "done ID"
// when it has handled it; a message whose id begins with killID ends it in between.
func consumerChild(ctx context.Context, data []byte) error {
	var o consumerOrder
	if err := json.Unmarshal(data, &o); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // the end is the order
		stop()
	}()
	c, closeAll, err := openConsumer(o.URL, consumer.Queue{
		Name: o.Queue, DeadLetterExchange: o.Dead, Steps: o.Steps, Prefetch: o.Prefetch, Handlers: o.Handlers,
		Deadline: 20 * time.Second,
		Handler: func(_ context.Context, m *consumer.Message) error {
			fmt.Println("call", m.ID, m.Attempt)
			if strings.HasPrefix(m.ID, killID) {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
			<-time.After(o.Sleep)
			fmt.Println("done", m.ID)
			return nil
		},
	})
	if err != nil {
		return err
	}
	return errors.Join(c.Run(ctx), closeAll())
}

// openConsumer makes a consumer of one queue with a sender of its own.
func openConsumer(
	url string, q consumer.Queue, observers ...consumer.Observer,
) (*consumer.Consumer, func() error, error) {
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
	sending, err := confirms.ParseURL(url)
	if err != nil {
		return nil, nil, err
	}
	sending.Logger = quiet
	cfg, err := consumer.ParseURL(url)
	if err != nil {
		return nil, nil, err
	}
	sender, err := confirms.Open(sending)
	if err != nil {
		return nil, nil, err
	}
	cfg.Queues, cfg.Sender, cfg.Logger, cfg.Observers = []consumer.Queue{q}, sender, quiet, observers
	closeAll := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return sender.Close(ctx)
	}
	c, err := consumer.New(cfg)
	if err != nil {
		return nil, nil, errors.Join(err, closeAll())
	}
	return c, closeAll, nil
}

// board is what consuming processes said.
type board struct {
	mu     sync.Mutex
	calls  map[string]int
	done   map[string]int
	called int
}

func newBoard() *board { return &board{calls: map[string]int{}, done: map[string]int{}} }

// listen notes what a child says until it ends.
func (b *board) listen(out io.Reader) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		id, _, _ := strings.Cut(rest, " ")
		b.mu.Lock()
		switch word {
		case "call":
			b.calls[id]++
			b.called++
		case "done":
			b.done[id]++
		}
		b.mu.Unlock()
	}
}

func (b *board) begun() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.called
}

func (b *board) finished() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.done)
}

// callsOf returns how often a handler had the message.
func (b *board) callsOf(id string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[id]
}
