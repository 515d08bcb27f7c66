package main

import (
	"context"
	"errors"
)

// consumerKinds are the faults of processes that consume.
func consumerKinds() []kind {
	return []kind{
		{name: "consumer-kill", hold: seconds(0, 1), consumers: true, act: consumerKill},
		{name: "consumer-term", hold: seconds(0, 1), consumers: true, act: consumerTerm},
		{name: "consumer-pause", hold: seconds(3, 6), consumers: true, act: consumerPause},
	}
}

func (f *fault) whileHandling(ctx context.Context, do func(*member) error) (proof, error) {
	return f.atWorkOn(ctx, roleConsumer, proof{What: "handler calls at that moment"}, f.book.handling, do)
}

func consumerKill(ctx context.Context, f *fault) (proof, error) {
	p, err := f.whileHandling(ctx, f.fleet.kill)
	return p, errors.Join(err, f.fleet.launch(roleConsumer))
}

func consumerTerm(ctx context.Context, f *fault) (proof, error) {
	p, err := f.whileHandling(ctx, f.fleet.stop)
	return p, errors.Join(err, f.fleet.launch(roleConsumer))
}

// consumerPause stops one with handlers' transactions open.
func consumerPause(ctx context.Context, f *fault) (proof, error) {
	hold := f.step.Hold
	f.step.Hold = 0
	return f.whileHandling(ctx, func(*member) error { return sleep(ctx, hold) })
}
