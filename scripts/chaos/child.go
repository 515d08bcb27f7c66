package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/store/gormstore"
)

// childArg as the first argument makes this program one of the processes of a run:
// chaos -child ROLE JSON. It is not for people.
const childArg = "-child"

// The roles of processes.
const (
	rolePublisher   = "publisher"
	roleCompensator = "compensator"
	roleConsumer    = "consumer"
)

// Timings of the product in a run: short, so that leases end within a minute's run, in
// the proportions of the defaults.
const (
	confirmTimeout = 5 * time.Second
	sendBudget     = 2 * time.Second
	claimLease     = 12 * time.Second
	lockTTL        = 3 * time.Second
)

// policy lets a row survive any one fault and, on single servers, lets what is never routable
// die within a minute.
func (s childSpec) policy() model.Policy {
	p := model.Policy{
		BaseDelay: 250 * time.Millisecond, MaxDelay: 3 * time.Second, MaxAttempts: 12, MinDeadAge: model.None,
	}
	if s.Patient {
		p.MinDeadAge = 0 // the default
	}
	return p
}

// childSpec is what a process is told.
type childSpec struct {
	Name    string
	Dir     string // of the run: ledger, send log and control file
	Dialect string
	DSN     string
	AMQP    string
	More    []string // host:port of the other nodes of the cluster
	Redis   string
	Seed    uint64
	Rate    float64 // messages per second
	Workers int
	// Patient rows do not die young: an outage of several servers uses their attempts up.
	Patient bool
}

func (s childSpec) path(suffix string) string { return filepath.Join(s.Dir, s.Name+suffix) }

// child is what both roles have.
type child struct {
	spec   childSpec
	rng    *rand.Rand
	log    *slog.Logger
	book   *sendLog
	store  *gormstore.Store
	sender *watched
}

// childMain runs a role until a signal.
func childMain(ctx context.Context, args []string, stderr io.Writer) int {
	run := map[string]func(context.Context, *child) error{
		rolePublisher: runPublisher, roleCompensator: runCompensator, roleConsumer: runConsumer,
	}
	if len(args) != 2 || run[args[0]] == nil {
		fmt.Fprintf(stderr, "chaos: %s is for the program itself\n", childArg)
		return exitUsage
	}
	if err := runChild(ctx, run[args[0]], []byte(args[1]), stderr); err != nil {
		fmt.Fprintf(stderr, "chaos: %s: %v\n", args[0], err)
		return exitBreach
	}
	return exitPass
}

func runChild(
	ctx context.Context, run func(context.Context, *child) error, data []byte, stderr io.Writer,
) (err error) {
	c := &child{log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	if err := json.Unmarshal(data, &c.spec); err != nil {
		return err
	}
	c.rng = rand.New(rand.NewPCG(c.spec.Seed, 2))
	if c.book, err = openSendLog(c.spec.path(sendSuffix)); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.book.close()) }()
	if err := c.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // ended before it began
		}
		return err
	}
	stopCounting := c.countGoroutines()
	err = run(ctx, c)
	stopCounting()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, notDrained(c.sender.Close(closing)), c.store.Close())
}

// notDrained drops the one error that a shutdown amid faults may end with: the rows are
// READY, and the send log has the sends without an outcome.
func notDrained(err error) error {
	if errors.Is(err, model.ErrNotDrained) {
		return nil
	}
	return err
}

// open waits for the database, which a fault may have taken away, and not for the broker.
func (c *child) open(ctx context.Context) error {
	for {
		store, err := anystore.Open(ctx, c.spec.DSN, gormstore.Options{Logger: c.log})
		if err == nil {
			c.store = store
			break
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond): // the interval of the poll
		}
	}
	cfg, err := confirms.ParseURL(c.spec.AMQP)
	if err != nil {
		return errors.Join(err, c.store.Close())
	}
	cfg.Name, cfg.Logger = c.spec.Name, c.log
	cfg.Addrs = append(cfg.Addrs, c.spec.More...)
	cfg.ConfirmTimeout, cfg.Window, cfg.MaxPending = confirmTimeout, 200, 2000
	cfg.Observers = []confirms.Observer{{
		Connected:     func(string, uint64) { c.book.event(wordConnected, "") },
		Disconnected:  func(_ uint64, err error) { c.book.event(wordDisconnected, err.Error()) },
		Blocked:       func(on bool, _ string) { c.book.event(wordBlocked, fmt.Sprint(on)) },
		ChannelClosed: func(code int, text string) { c.book.event(wordChannelClosed, fmt.Sprint(code, " ", text)) },
	}}
	sender, err := confirms.Open(cfg)
	if err != nil {
		return errors.Join(err, c.store.Close())
	}
	c.sender = &watched{Sender: sender, book: c.book, rewind: newControl(c.spec.path(controlSuffix))}
	return nil
}
