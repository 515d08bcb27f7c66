package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// biteLimit is how long a fault is kept up beyond its hold while it has not bitten.
const biteLimit = 25 * time.Second

// fault is one step while it runs.
type fault struct {
	*world
	fleet   *fleet
	book    *book
	counter *counter
	step    step
	rng     *rand.Rand
	mark    int // events before it
}

// done is what became of one step.
type done struct {
	Kind     string
	Database bool
	Silent   bool
	From, To int64 // Unix ns: broken and mended
	Proof    proof
	Err      error
}

// atWork waits until the broker acks something: a fault right behind another would else find
// nothing to break. Not for ever: what does not recover shows in the fault and in the stalls.
func (f *fault) atWork(ctx context.Context) {
	before := f.book.acked()
	_ = until(ctx, biteLimit, "the broker acks something", func() bool { return f.book.acked() > before })
}

// run carries the step out.
func (f *fault) run(ctx context.Context) done {
	f.atWork(ctx)
	k := f.step.Kind
	d := done{Kind: k.name, Database: k.database, Silent: k.silent, From: time.Now().UnixNano()}
	f.mark, d.Err = f.book.mark()
	if d.Err == nil {
		d.Proof, d.Err = f.step.Kind.act(ctx, f)
	}
	d.To = time.Now().UnixNano()
	switch {
	case d.Err != nil:
		d.Err = fmt.Errorf("%s: %w", d.Kind, d.Err)
		f.log.Error("fault failed", "kind", d.Kind, "error", d.Err)
	case d.Proof.Count == 0:
		f.log.Error("fault did not bite", "kind", d.Kind, "looked_for", d.Proof.What)
	default:
		f.log.Info("fault bit", "kind", d.Kind, "count", d.Proof.Count, "proof", d.Proof.What,
			"seconds", float64(d.To-d.From)/1e9)
	}
	return d
}

// hold waits the step's time, and on until count is above 0 or the limit is reached.
func (f *fault) hold(ctx context.Context, what string, count func() int) (proof, error) {
	t := time.NewTimer(f.step.Hold)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		return proof{}, ctx.Err()
	}
	err := until(ctx, biteLimit, what, func() bool { return count() > 0 })
	if ctx.Err() != nil {
		return proof{}, err
	}
	return proof{count(), what}, nil // not bitten in time is no error here: the proof is 0
}

// events counts what the processes wrote since the fault began: events of a word whose
// text contains one of the parts (any text without parts).
func (f *fault) events(word string, parts ...string) func() int {
	return func() int {
		return f.book.since(f.mark, func(e event) bool {
			return e.word == word && (len(parts) == 0 ||
				slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(e.text, p) }))
		})
	}
}

// failures counts calls that failed and writes that failed since the fault began, not
// those that were meant to.
func (f *fault) failures() int {
	return f.book.since(f.mark, func(e event) bool {
		return e.word == wordStoreError ||
			e.word == wordCall && !strings.HasSuffix(e.text, whyIntended) && !strings.HasSuffix(e.text, whyShutdown)
	})
}

// either adds counts.
func either(counts ...func() int) func() int {
	return func() (n int) {
		for _, c := range counts {
			n += c()
		}
		return n
	}
}
