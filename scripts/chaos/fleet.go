package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/transmsg/transmsg/internal/proc"
)

// The number of processes of each role.
const (
	publishers   = 3
	compensators = 3
	consumers    = 3 // with --consumers
)

// member is one process of the run.
type member struct {
	role string
	spec childSpec
	*proc.Process

	// Set by whoever ends or pauses it, under the fleet's mutex.
	ended  bool    // on purpose
	killed int64   // Unix ns of a kill -9
	pauses []pause // SIGSTOP
}

// pause is a time in which a process did not run.
type pause struct{ from, to int64 }

// fleet is the processes, the present ones and those before them.
type fleet struct {
	world *world
	book  *book
	opts  options

	mu  sync.Mutex
	all []*member
}

// launch starts one more process of a role.
func (f *fleet) launch(role string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 1
	for _, m := range f.all {
		if m.role == role {
			n++
		}
	}
	spec := childSpec{
		Name: fmt.Sprintf("%s-%d", role, n), Dir: f.world.dir, Dialect: f.opts.store,
		DSN:  f.world.memberDSN(len(f.all)),
		AMQP: f.world.amqp(), More: f.world.moreBrokers(), Redis: "redis://" + f.world.redisAddr() + "/0",
		Patient: f.world.mode != "",
		Seed:    f.opts.seed<<16 + uint64(len(f.all)), Rate: f.opts.rate / publishers, Workers: 8,
	}
	data, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	p, err := proc.Start(proc.Spec{
		Path: self, Args: []string{childArg, role, string(data)}, Dir: f.world.dir, Output: spec.path(outputSuffix),
	})
	if err != nil {
		return err
	}
	f.all = append(f.all, &member{role: role, spec: spec, Process: p})
	f.book.follow(spec, role)
	return nil
}

// living returns the processes of a role that nobody has ended, oldest first.
func (f *fleet) living(role string) []*member {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*member
	for _, m := range f.all {
		if m.role == role && !m.ended {
			out = append(out, m)
		}
	}
	return out
}

// order tells all publishers something.
func (f *fleet) order(o orders) error {
	var errs []error
	for _, m := range f.living(rolePublisher) {
		errs = append(errs, writeOrders(m.spec.path(controlSuffix), o))
	}
	return errors.Join(errs...)
}

// kill ends a process with SIGKILL.
func (f *fleet) kill(m *member) error {
	f.mu.Lock()
	m.ended, m.killed = true, time.Now().UnixNano()
	f.mu.Unlock()
	return m.Kill()
}

// stop ends a process by SIGTERM, as an orchestrator does.
func (f *fleet) stop(m *member) error {
	f.mu.Lock()
	m.ended = true
	m.resumed() // by the signal
	f.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return m.Stop(ctx)
}

// stopAll stops the living processes of a role at the same time.
func (f *fleet) stopAll(role string) error {
	members := f.living(role)
	errs := make([]error, len(members))
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { errs[i] = f.stop(m) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// paused keeps a process from running while during runs.
func (f *fleet) paused(m *member, during func() error) error {
	f.mu.Lock()
	m.pauses = append(m.pauses, pause{from: time.Now().UnixNano()})
	f.mu.Unlock()
	err := m.Pause()
	if err == nil {
		err = during()
	}
	err = errors.Join(err, m.Resume())
	f.mu.Lock()
	m.resumed()
	f.mu.Unlock()
	return err
}

// resumed ends the pause that is not over.
func (m *member) resumed() {
	if n := len(m.pauses); n > 0 && m.pauses[n-1].to == 0 {
		m.pauses[n-1].to = time.Now().UnixNano()
	}
}

// died names the processes that ended although nobody ended them.
func (f *fleet) died() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []string{}
	for _, m := range f.all {
		if !m.ended && !m.Running() {
			out = append(out, m.spec.Name)
		}
	}
	return out
}

// close kills what still runs.
func (f *fleet) close() error {
	f.mu.Lock()
	members := slices.Clone(f.all)
	f.mu.Unlock()
	var errs []error
	for _, m := range members {
		errs = append(errs, m.Kill())
	}
	return errors.Join(errs...)
}
