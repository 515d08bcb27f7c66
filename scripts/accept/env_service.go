package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/anystore"
	"github.com/transmsg/transmsg/model"
	"github.com/transmsg/transmsg/publisher"
	"github.com/transmsg/transmsg/store/gormstore"
)

// serviceName owns the rows of every check.
const serviceName = "accept"

// serviceSpec says how a service uses the library. Zero fields are the library's
// defaults. It crosses to child processes as JSON.
type serviceSpec struct {
	DSN, AMQP                  string
	Service                    string // serviceName unless given
	ConfirmTimeout, SendBudget time.Duration
	Window, MaxUnsettled       int
}

// firstLease is how long a row of this service is leased at first.
func (s serviceSpec) firstLease() time.Duration {
	return s.ConfirmTimeout + model.LeaseMargin + s.SendBudget
}

// service is the library wired as the README says.
type service struct {
	store  *gormstore.Store
	sender *confirms.Sender
	pub    *publisher.Publisher
}

// openService does not wait for the broker.
func openService(ctx context.Context, spec serviceSpec) (*service, error) {
	cfg, err := confirms.ParseURL(spec.AMQP)
	if err != nil {
		return nil, err
	}
	cfg.ConfirmTimeout, cfg.Window = spec.ConfirmTimeout, spec.Window
	s := &service{}
	if s.store, err = anystore.Open(ctx, spec.DSN, gormstore.Options{}); err != nil {
		return nil, err
	}
	if s.sender, err = confirms.Open(cfg); err != nil {
		return nil, errors.Join(err, s.store.Close())
	}
	s.pub, err = publisher.Open(publisher.Config{
		Service: cmp.Or(spec.Service, serviceName), Store: s.store, Sender: s.sender,
		SendBudget: spec.SendBudget, MaxUnsettled: spec.MaxUnsettled,
	})
	if err != nil {
		return nil, errors.Join(err, s.sender.Close(ctx), s.store.Close())
	}
	return s, nil
}

// close drains: what is in the table afterwards is what stays there.
func (s *service) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return errors.Join(s.pub.Close(ctx), s.sender.Close(ctx), s.store.Close())
}

// ready waits for the broker, so that messages are sent and not only stored.
func (s *service) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return s.sender.WaitReady(ctx)
}

// service opens one on the world, by way of spec.AMQP if that is set. The world
// closes it; a check closes it earlier where it wants to look at what stays.
func (w *world) service(ctx context.Context, spec serviceSpec) (*service, error) {
	spec.DSN, spec.AMQP = w.dsn, cmp.Or(spec.AMQP, w.url)
	s, err := openService(ctx, spec)
	if err != nil {
		return nil, err
	}
	w.later(func() error { return s.close(context.WithoutCancel(ctx)) })
	return s, nil
}
