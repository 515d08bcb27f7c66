package collector

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/internal/broker"
	"github.com/transmsg/transmsg/model"
)

const (
	// storeTimeout bounds one call of the store, stopTimeout the calls after Run's context has ended.
	storeTimeout = 30 * time.Second
	stopTimeout  = 10 * time.Second
)

// store stores the batch until it is stored, and acks it. What cannot be stored goes to s.aside. The error says that
// the channel is not usable any more.
func (s *subscription) store(ctx context.Context, batch []letter) error {
	for failed := 0; ; failed++ {
		rest, err := s.storeOnce(ctx, batch)
		if err == nil {
			return nil
		}
		var lost *ackError
		if errors.As(err, &lost) {
			return lost.err
		}
		batch = rest
		s.q.change(func(st *State) { st.Failed++; st.Reason = model.CleanText(err.Error()) })
		s.q.c.log.Warn("store dead letters", "queue", s.q.name, "letters", len(batch), "error", err)
		if !broker.Sleep(ctx, backoff(failed)) {
			return nil // they are the queue's again
		}
		if s.ch.IsClosed() { // by the consumer timeout, or with its connection
			return errors.New("the channel ended while letters could not be stored")
		}
	}
}

// ackError says that an ack failed: its channel is gone.
type ackError struct{ err error }

// Error implements error.
func (e *ackError) Error() string { return e.err.Error() }

// storeOnce stores what it can, and acks that. It returns what is neither stored nor in s.aside, with the reason.
func (s *subscription) storeOnce(ctx context.Context, batch []letter) (rest []letter, err error) {
	err = s.commit(ctx, batch)
	if err == nil {
		return nil, s.stored(batch)
	}
	if len(batch) == 1 {
		return batch, err
	}
	// One of them may be at fault; where the store is away the first alone says so.
	for i := range batch {
		if err = s.commit(ctx, batch[i:i+1]); err == nil {
			err = s.stored(batch[i : i+1])
		}
		if err != nil {
			return batch[i:], err
		}
	}
	return nil, nil
}

// commit stores letters; a single one that the store can never take is put aside, and is no error.
func (s *subscription) commit(ctx context.Context, batch []letter) error {
	bound := storeTimeout
	if ctx.Err() != nil {
		bound = stopTimeout
	}
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), bound)
	defer cancel()
	list := make([]model.DeadLetter, len(batch))
	for i := range batch {
		list[i] = batch[i].letter
	}
	err := s.q.c.cfg.Store.Collect(call, list)
	var invalid *model.InvalidError
	if len(batch) == 1 && errors.As(err, &invalid) {
		s.cannotStore(batch[0], err)
		return nil
	}
	return err
}

// stored acks letters, but for one that was put aside.
func (s *subscription) stored(batch []letter) error {
	for i := range batch {
		if n := len(s.aside); n > 0 && s.aside[n-1].tag == batch[i].tag {
			continue
		}
		s.q.change(func(st *State) { st.Collected++; st.Reason = "" })
		if err := s.ack(&batch[i]); err != nil {
			return &ackError{err}
		}
	}
	return nil
}

// cannotStore notes a letter that the store can never take, and tells people.
func (s *subscription) cannotStore(l letter, err error) {
	l.why = model.CleanText(err.Error())
	s.aside = append(s.aside, l)
	now := time.Now()
	s.q.c.log.Error("dead letter cannot be stored", "queue", s.q.name, "to", s.q.c.cfg.Uncollectable,
		"bytes", l.letter.Size, "error", err)
	s.q.c.cfg.Alert(model.Alert{
		Kind: model.AlertUncollectable, Service: s.q.c.cfg.Service, Exchange: model.Readable(l.letter.Exchange),
		RoutingKey: model.Readable(l.letter.RoutingKey), Count: 1, First: now, Last: now,
		Text: model.CleanText(fmt.Sprintf("a dead letter of queue %s cannot be stored and goes to queue %s: %v",
			model.Readable(l.letter.Queue), s.q.c.cfg.Uncollectable, err)),
		Sample: model.AlertSample{ID: model.Readable(string(l.letter.WireID)), Key: l.letter.Key},
	})
}
