package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/transmsg/transmsg/internal/faultproxy"
)

// slowAcks keeps sends in flight, so that what happens to a process meets some.
const slowAcks = 250 * time.Millisecond

// inTheAct waits until a process of the role has sends in flight, with the process stopped
// at that moment, and calls do for it.
func (f *fault) inTheAct(ctx context.Context, role string, do func(*member) error) (proof, error) {
	f.link.Delay(faultproxy.ToClient, slowAcks)
	defer f.link.Delay(faultproxy.ToClient, 0)
	return f.atWorkOn(ctx, role, proof{What: "sends in flight at that moment"}, f.book.inFlight, do)
}

// atWorkOn is inTheAct for any work, of which count tells how much a process is at.
func (f *fault) atWorkOn(
	ctx context.Context, role string, p proof, count func(proc string) int, do func(*member) error,
) (proof, error) {
	if err := sleep(ctx, f.step.Hold); err != nil {
		return proof{}, err
	}
	for deadline := time.Now().Add(biteLimit); time.Now().Before(deadline) && ctx.Err() == nil; {
		members := f.fleet.living(role)
		m := members[f.rng.IntN(len(members))]
		err := f.fleet.paused(m, func() error {
			if p.Count = count(m.spec.Name); p.Count == 0 {
				return nil
			}
			return do(m)
		})
		if err != nil || p.Count > 0 {
			return p, err
		}
		if err := sleep(ctx, 20*time.Millisecond); err != nil {
			return p, err
		}
	}
	return p, ctx.Err()
}

// sleep is for the length of a fault, never for synchronisation.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func publisherKill(ctx context.Context, f *fault) (proof, error) {
	p, err := f.inTheAct(ctx, rolePublisher, f.fleet.kill)
	return p, errors.Join(err, f.fleet.launch(rolePublisher))
}

func publisherTerm(ctx context.Context, f *fault) (proof, error) {
	p, err := f.inTheAct(ctx, rolePublisher, f.fleet.stop)
	return p, errors.Join(err, f.fleet.launch(rolePublisher))
}

func compensatorKill(ctx context.Context, f *fault) (proof, error) {
	p, err := f.inTheAct(ctx, roleCompensator, f.fleet.kill)
	return p, errors.Join(err, f.fleet.launch(roleCompensator))
}

// compensatorPause stops one for three lifetimes of its lock: it believes in a lock and in
// leases that are long over.
func compensatorPause(ctx context.Context, f *fault) (proof, error) {
	hold := f.step.Hold
	f.step.Hold = 0
	return f.inTheAct(ctx, roleCompensator, func(*member) error { return sleep(ctx, hold) })
}

// clockStep steps the wall clock of one publisher by five minutes between storing and
// sending: it must not send then, since it cannot know what its lease is worth.
func clockStep(ctx context.Context, f *fault) (proof, error) {
	members := f.fleet.living(rolePublisher)
	m := members[f.rng.IntN(len(members))]
	by := []time.Duration{5 * time.Minute, -5 * time.Minute}[f.rng.IntN(2)]
	path := m.spec.path(controlSuffix)
	if err := writeOrders(path, orders{ClockStep: by}); err != nil {
		return proof{}, err
	}
	p, err := f.hold(ctx, "sends put off by that process", func() int {
		return f.book.since(f.mark, func(e event) bool {
			return e.proc == m.spec.Name && e.word == wordOutcome && strings.Contains(e.text, "too late to send")
		})
	})
	return p, errors.Join(err, writeOrders(path, orders{}))
}
