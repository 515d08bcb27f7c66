package compensator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

// send is one claimed row on its way to its outcome. It is the sender's handler.
type send struct {
	run     *run
	result  settle.Result
	message model.Message
}

// newSend takes one claimed row. Its age counts from its own first answered failure, by the
// database's clock alone: the claim has just set UpdatedAt. So a backlog that an outage has
// left is not dead at its first answer.
func (r *run) newSend(row *model.TransMessage) *send {
	return &send{run: r, result: settle.Result{Row: row, Age: row.FailingFor(row.UpdatedAt)}}
}

// leastCharged puts rows that were never charged first: they are the most likely to pass,
// and of rows with a broken exchange the first is its probe.
func leastCharged(rows []model.TransMessage) {
	slices.SortStableFunc(rows, func(a, b model.TransMessage) int { return cmp.Compare(a.Attempts, b.Attempts) })
}

// readiness is what is to be done with a claimed row.
type readiness uint8

const (
	toSend  readiness = iota + 1
	settled           // it has its outcome
	waiting           // handed back with a delay: its exchange is broken
)

// prepare decodes and checks the row. A row that cannot be sent gets its outcome here
// and never reaches the broker, which would close the channel or the connection under
// its neighbours.
func (s *send) prepare() readiness {
	o, ok := s.check()
	if !ok {
		s.raiseNewer(o)
		s.settle(o)
		return settled
	}
	// Asked before it takes room, or rows of a refused exchange would use up the others'.
	if why, waits := s.run.c.cfg.Sender.Waits(s.message.Exchange, s.message.RoutingKey); waits {
		s.wait(why)
		return waiting
	}
	return toSend
}

// wait hands the row back with a delay: its exchange is refused.
func (s *send) wait(why model.Outcome) {
	s.result.Outcome = why
	s.run.count(func(f *RunStats) { f.Waiting++ })
	s.run.c.batcher.Add(&s.result)
}

// raiseNewer tells of a row from a newer version, once.
func (s *send) raiseNewer(o model.Outcome) {
	if row := s.result.Row; o.Code == model.CodeNewerCodec && row.LastCode != model.CodeNewerCodec {
		s.run.raiseRow(model.AlertNewerCodec, row, o)
	}
}

// raiseRow tells of one row.
func (r *run) raiseRow(kind model.AlertKind, row *model.TransMessage, o model.Outcome) {
	at := time.UnixMilli(row.UpdatedAt)
	r.c.raise(model.Alert{
		Kind: kind, Service: row.Service, Exchange: row.Exchange, RoutingKey: row.RoutingKey,
		Code: o.Code, Text: o.Text, Count: 1, First: at, Last: at,
		Sample: model.AlertSample{ID: row.ID, Key: row.MessageKey, Attempts: row.Attempts},
	})
}

// check says why the row cannot be sent. A panic is a failure of this row alone.
func (s *send) check() (o model.Outcome, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			o, ok = refusal(model.CodeInvalid, fmt.Errorf("panic: %v", p), false), false
		}
	}()
	if o, ok := crashLoop(s.result.Row); ok {
		return o, false
	}
	m, err := s.result.Row.Message()
	if err == nil {
		err = checkRow(s.result.Row, &m, s.run.c.limits())
	}
	switch {
	case err == nil:
		s.message = m
		return model.Outcome{}, true
	case errors.Is(err, model.ErrNewerCodec):
		// Not the message's fault: it waits, with backoff, for the upgrade.
		return model.Outcome{Kind: model.Unknown, Code: model.CodeNewerCodec, Text: model.CleanText(err.Error())}, false
	case errors.Is(err, model.ErrCorrupt):
		return refusal(model.CodeCorrupt, err, true), false
	default:
		return refusal(model.CodeInvalid, err, true), false
	}
}

// checkRow is the check of a row's message. What is replayed was published by somebody else, and is sent as it came.
func checkRow(row *model.TransMessage, m *model.Message, l model.Limits) error {
	if row.IsReplay() {
		return model.CheckReceived(m, l)
	}
	return model.Check(m, l)
}

func refusal(code model.CauseCode, err error, permanent bool) model.Outcome {
	return model.Outcome{
		Kind: model.Refused, Code: code, Text: model.CleanText(err.Error()), Permanent: permanent,
	}
}

// limits are the configured ones within the frame size in force.
func (c *Compensator) limits() model.Limits {
	l := c.cfg.Limits
	if frame := c.cfg.Sender.FrameMax(); l.FrameMax == 0 || frame < l.FrameMax {
		l.FrameMax = frame
	}
	return l
}

func (s *send) size() int64 { return int64(len(s.message.Body)) }

// start hands the row to the sender; its room is reserved. A replay whose message has no id goes alone, since its
// return would name none.
func (s *send) start(since time.Time) {
	c, row := s.run.c, s.result.Row
	s.run.count(func(f *RunStats) { f.Sent++ })
	c.unanswered.start(len(s.message.Body))
	c.cfg.Sender.Send(confirms.Send{
		Message: &s.message, Since: since, Within: c.within(),
		Alone:    dangerous(row) || row.IsReplay() && s.message.ID == "",
		Received: row.IsReplay(),
		Handler:  s,
	})
}

// dangerous reports whether the row may end, or has ended, the channel or connection that
// it is sent on: it goes alone until it is acked or DEAD, or its neighbours pay at each try.
func dangerous(row *model.TransMessage) bool {
	return row.LastCode == model.CodeSuspect || row.LastCode == model.CodeOther || row.Claims >= crashLoopClaims
}

// Done takes the outcome, on one of the sender's goroutines.
func (s *send) Done(o model.Outcome) {
	switch {
	case o.Wait > 0:
		s.wait(o)
	case o.Kind == model.Refused && o.Code == model.CodeOther:
		s.run.accuse(s, o)
	default:
		s.settle(o)
	}
	s.run.c.unanswered.done(len(s.message.Body))
}

// LateAck says that the broker has the message after all.
func (s *send) LateAck() { s.run.c.batcher.LateAck(&s.result) }

// settle counts the outcome and puts it on its way to the table. It does not block.
func (s *send) settle(o model.Outcome) {
	if o.Kind == model.Acked {
		s.run.c.health.acked()
	}
	s.result.Outcome = o
	s.run.count(func(f *RunStats) { f.add(o.Kind) })
	s.run.c.cfg.observer.Outcome(s.result.Row.Service, o)
	s.run.c.batcher.Add(&s.result)
}

func (f *RunStats) add(k model.OutcomeKind) {
	switch k {
	case model.Acked:
		f.Acked++
	case model.Nacked, model.Returned, model.Refused:
		f.Failed++
	case model.Unknown:
		f.Unknown++
	default:
		f.Deferred++
	}
}

// handBack makes claimed rows that were not sent due again at once.
func (r *run) handBack(rows []model.TransMessage) {
	for i := range rows {
		s := r.newSend(&rows[i])
		s.settle(model.Outcome{Kind: model.Deferred, Code: model.CodeNotSent})
	}
}
