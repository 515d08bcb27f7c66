package publisher

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

// Receipt tells the outcome of the first send of one message. It is safe for
// concurrent use and need not be waited for.
type Receipt struct {
	id      string
	done    chan struct{}
	outcome model.Outcome // set before done is closed
}

// ID returns the message's id.
func (r *Receipt) ID() string { return r.id }

// Done returns a channel that is closed when the outcome is known. It always is: a send
// without an answer ends as unknown after the confirm timeout, in which the time is not
// counted while the broker blocks the connection.
func (r *Receipt) Done() <-chan struct{} { return r.done }

// Wait returns the outcome of the first send when it is known, or ctx's error if that
// ends first. The message is stored either way. Only acked means that a queue has it;
// after any other outcome the row is kept and a compensator tries again.
func (r *Receipt) Wait(ctx context.Context) (model.Outcome, error) {
	if r == nil || r.done == nil {
		return model.Outcome{}, errNoReceipt
	}
	select {
	case <-r.done:
		return r.outcome, nil
	default:
	}
	select {
	case <-r.done:
		return r.outcome, nil
	case <-ctx.Done():
		return model.Outcome{}, ctx.Err()
	}
}

// Err waits as Wait does and returns nil only when a queue has the message: acked.
// [model.ErrNotAcked] is any other outcome, which its text names; the row is kept and a
// compensator tries again. ctx's error means that the outcome is not known yet.
func (r *Receipt) Err(ctx context.Context) error {
	o, err := r.Wait(ctx)
	switch {
	case errors.Is(err, errNoReceipt):
		return err
	case err != nil:
		return fmt.Errorf("publisher: wait for the outcome of %s: %w", r.id, err)
	case o.Kind != model.Acked:
		return fmt.Errorf("publisher: %s: %w: %s", r.id, model.ErrNotAcked, o)
	}
	return nil
}

// envelope is one message on its way, in one allocation: what is stored, what is sent,
// and who is told.
type envelope struct {
	p        *Publisher
	msg      model.Message
	row      model.TransMessage
	reserved bool          // holds room at the sender
	waits    bool          // not sent, since the broker refuses its exchange
	before   bool          // not sent, since the message was stored before: that row is another call's
	why      model.Outcome // then
	since    time.Time     // just before its lease began
	receipt  Receipt
	result   settle.Result
}

var _ confirms.Handler = (*envelope)(nil)

func (p *Publisher) newEnvelope(m model.Message, now time.Time, l model.Limits) (*envelope, error) {
	defaulted := m.Properties.Timestamp.IsZero()
	norm, err := model.Normalize(m, now, l)
	if err == nil && p.cfg.StampStored {
		err = model.StampStored(&norm, now, l)
	}
	if err != nil {
		return nil, err
	}
	f := &envelope{p: p, msg: norm, row: model.NewTransMessage(p.cfg.Service, &norm, defaulted)}
	f.row.Epoch = p.epoch
	if m.ID != "" { // given by the caller: there may be another life of it
		f.row.Epoch = model.NewEpoch()
	}
	f.receipt = Receipt{id: norm.ID, done: make(chan struct{})}
	return f, nil
}

// storedBefore is the text of the outcome where another call stored the message.
const storedBefore = "stored before by another call, which sends it, or a compensator does"

// send hands the envelope, which holds room, to the sender.
func (f *envelope) send(since time.Time) {
	f.since = since
	f.p.hold(1)
	f.p.cfg.Sender.Send(confirms.Send{
		Message: &f.msg, Since: since, Within: f.p.cfg.SendBudget, Handler: f,
	})
}

// timed reports whether the envelope has a NotBefore. Only the database's clock knows when
// that is, so this process never sends it.
func (f *envelope) timed() bool { return f.row.NotBefore > 0 }

// sendable reports whether the envelope may be sent now.
func (f *envelope) sendable() bool { return !f.timed() && !f.waits }

// notSent is the outcome of a envelope that is not sent. Its row is due at once also where
// the broker refuses its exchange: another process's login may have the right to it.
func (f *envelope) notSent() model.Outcome {
	if f.before {
		return model.Outcome{Kind: model.Deferred, Code: model.CodeNotSent, Text: storedBefore}
	}
	if !f.waits {
		return model.Outcome{Kind: model.Deferred, Code: model.CodeNotSent}
	}
	o := f.why
	o.Wait = 0
	return o
}

// deferNow completes the receipt of a message that this process does not send: its row is
// due, or leased to somebody else.
func (f *envelope) deferNow() { f.complete(f.notSent(), 0) }

// handBack is deferNow for a row that is still leased to this process: it is made due.
func (f *envelope) handBack() {
	o := f.notSent()
	f.result = settle.Result{Row: &f.row, Outcome: o}
	f.p.batcher.Add(&f.result)
	f.complete(o, 0)
}

// Done implements confirms.Handler: the one outcome of the send. The row's fate is
// queued before the receipt completes, so that whoever has seen the outcome and then
// closes the publisher finds it written.
func (f *envelope) Done(o model.Outcome) {
	f.result = settle.Result{Row: &f.row, Outcome: o}
	f.p.batcher.Add(&f.result)
	f.p.sending.Add(-1) // after Add: between the two it counts twice, never not at all
	f.complete(o, time.Since(f.since))
	f.p.leave()
}

// LateAck implements confirms.Handler: a send that had timed out was acked after all.
func (f *envelope) LateAck() { f.p.batcher.LateAck(&f.result) }

func (f *envelope) complete(o model.Outcome, elapsed time.Duration) {
	f.receipt.outcome = o
	close(f.receipt.done)
	f.p.cfg.observer.Outcome(f.receipt.id, o, elapsed)
}
