package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/transmsg/transmsg/model"
)

// Bounds of what publish has in hand at once: enough for the store to write batches and
// for the window of the channel, and memory for a few of the largest bodies.
const (
	inFlightMessages = 512
	inFlightBytes    = 128 << 20
)

// receipt is what became of one publish; publisher.Receipt is one.
type receipt interface {
	Wait(context.Context) (model.Outcome, error)
}

// result is what became of one input.
type result struct {
	line    int
	id      string // empty for a malformed line
	verdict verdict
	code    model.CauseCode
	text    string
}

// verdict is the word for a result: an outcome's kind, or one of these.
type verdict string

const (
	verdictPending      verdict = "pending"       // stored; no outcome within --wait
	verdictMalformed    verdict = "malformed"     // the line is no message; nothing stored
	verdictInvalid      verdict = "invalid"       // refused by the validator; nothing stored
	verdictConflict     verdict = "conflict"      // the id is stored with other content
	verdictDead         verdict = "dead"          // the id is stored and DEAD
	verdictNotStored    verdict = "not-stored"    // certain: nothing stored
	verdictStoreUnknown verdict = "store-unknown" // maybe stored; repeat with the same id
)

// failed says that the message is not, or not certainly, in the store's hands.
func (v verdict) failed() bool {
	switch v {
	case verdictMalformed, verdictInvalid, verdictConflict, verdictNotStored, verdictStoreUnknown:
		return true
	default:
		return false
	}
}

// kept says that the message is DEAD, or is stored because the broker answered that it did
// not take it: exit code 3. A nack is such an answer; without an answer nothing is known.
func (v verdict) kept() bool { return v == verdictDead || v.answered() }

// answered says that the broker said no. It counts as an attempt, and the last one allowed
// makes the message DEAD at once.
func (v verdict) answered() bool {
	switch v {
	case verdict(model.Returned.String()), verdict(model.Refused.String()), verdict(model.Nacked.String()):
		return true
	default:
		return false
	}
}

// pipeline publishes inputs, many at a time.
type pipeline struct {
	publish     func(context.Context, model.Message) (receipt, error)
	wait        time.Duration // for an outcome
	stopOnError bool
	report      func(result) // called from several goroutines
}

// run publishes until the inputs end, ctx ends, or an input fails and stopOnError is set;
// then it waits for what is under way. hard bounds that: it ends later than ctx.
func (p *pipeline) run(ctx, hard context.Context, inputs <-chan input) {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, inFlightMessages)
	room := semaphore.NewWeighted(inFlightBytes)
	failed := make(chan struct{}, 1)
	for {
		var in input
		var ok bool
		select {
		case <-ctx.Done():
			return
		case <-failed:
			return
		case in, ok = <-inputs:
		}
		if !ok {
			return
		}
		if in.err != nil {
			p.report(result{line: in.line, verdict: verdictMalformed, text: in.err.Error()})
			if p.stopOnError {
				return
			}
			continue
		}
		size := min(int64(len(in.message.Body)), inFlightBytes)
		if room.Acquire(ctx, size) != nil {
			return // ctx ended; this input was not published
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots; room.Release(size) }()
			r := p.one(hard, in)
			p.report(r)
			if p.stopOnError && r.verdict.failed() {
				select {
				case failed <- struct{}{}:
				default:
				}
			}
		})
	}
}

// one publishes one message and waits for its outcome.
func (p *pipeline) one(ctx context.Context, in input) result {
	r := result{line: in.line, id: in.message.ID}
	if r.id == "" { // made here, so that a store failure can name it
		r.id = model.NewID()
		in.message.ID = r.id
	}
	rc, err := p.publish(ctx, in.message)
	if err != nil {
		r.verdict, r.text = storeVerdict(err), err.Error()
		var invalid *model.InvalidError
		if errors.As(err, &invalid) {
			r.text = invalid.Error() // the line is named already
		}
		return r
	}
	waiting, cancel := context.WithTimeout(ctx, p.wait)
	defer cancel()
	o, err := rc.Wait(waiting)
	if err != nil {
		r.verdict, r.text = verdictPending, fmt.Sprintf("stored; no outcome within %v", p.wait)
		return r
	}
	r.verdict, r.code, r.text = verdict(o.Kind.String()), o.Code, o.Text
	return r
}

// storeVerdict sorts the errors of Publish.
func storeVerdict(err error) verdict {
	switch {
	case errors.Is(err, model.ErrInvalid):
		return verdictInvalid
	case errors.Is(err, model.ErrConflict):
		return verdictConflict
	case errors.Is(err, model.ErrDead):
		return verdictDead
	case errors.Is(err, model.ErrStoreUnknown):
		return verdictStoreUnknown
	default: // ErrNotStored, ErrClosed
		return verdictNotStored
	}
}
