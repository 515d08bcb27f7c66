package modeltest_test

import (
	"context"
	"slices"

	"pgregory.net/rapid"

	"github.com/transmsg/transmsg/internal/scriptedbroker"
	"github.com/transmsg/transmsg/model"
)

// answered takes a message off the wire; its outcome must be one of kinds.
func (w *tracker) answered(m *scriptedbroker.Publish, kinds ...model.OutcomeKind) {
	w.want[m.MessageID] = kinds
	w.open = slices.DeleteFunc(w.open, func(x *scriptedbroker.Publish) bool { return x == m })
}

// drawOpen draws one of the messages on the wire, -1 when there is none.
func (w *tracker) drawOpen(t *rapid.T) int {
	if len(w.open) == 0 {
		return -1
	}
	return rapid.IntRange(0, len(w.open)-1).Draw(t, "message")
}

func must(t *rapid.T, errs ...error) {
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// confirm acks or nacks one message, or it and all before it.
func (w *tracker) confirm(t *rapid.T) {
	i := w.drawOpen(t)
	if i < 0 {
		return
	}
	multiple, ack := rapid.Bool().Draw(t, "multiple"), rapid.Bool().Draw(t, "ack")
	kind, answer := model.Nacked, w.open[i].Nack
	if ack {
		kind, answer = model.Acked, w.open[i].Ack
	}
	must(t, answer(multiple))
	concerned := slices.Clone(w.open[i : i+1])
	if multiple {
		concerned = slices.Clone(w.open[:i+1])
	}
	for _, m := range concerned {
		w.answered(m, kind)
	}
}

// returned sends some messages back and then confirms all up to one, as a broker does that
// coalesces its confirms. A returned message is not sent, whatever the confirm says.
func (w *tracker) returned(t *rapid.T) {
	i := w.drawOpen(t)
	if i < 0 {
		return
	}
	concerned := slices.Clone(w.open[:i+1])
	kind, confirm := model.Acked, w.open[i].Ack
	if rapid.Bool().Draw(t, "nack") {
		kind, confirm = model.Nacked, w.open[i].Nack
	}
	back := map[*scriptedbroker.Publish]bool{}
	for _, m := range concerned {
		if back[m] = rapid.Bool().Draw(t, "back"); back[m] {
			must(t, m.Return(312, "NO_ROUTE"))
		}
	}
	must(t, confirm(true))
	for _, m := range concerned {
		if back[m] {
			w.answered(m, model.Returned)
		} else {
			w.answered(m, kind)
		}
	}
}

// answerSome answers some of the messages on the wire and says what each of them then is,
// if it was read before the end that follows at once. A nack just before a close may look
// like one: that is the safe side.
func (w *tracker) answerSome(
	t *rapid.T, among []*scriptedbroker.Publish,
) map[*scriptedbroker.Publish]model.OutcomeKind {
	kinds := map[*scriptedbroker.Publish]model.OutcomeKind{}
	for _, m := range among {
		switch rapid.IntRange(0, 3).Draw(t, "answer") {
		case 0:
			must(t, m.Ack(false))
			kinds[m] = model.Acked
		case 1:
			must(t, m.Nack(false))
			kinds[m] = model.Nacked
		case 2:
			must(t, m.Return(312, "NO_ROUTE"))
			kinds[m] = model.Returned
		}
	}
	return kinds
}

// burst answers many at once, without an end.
func (w *tracker) burst(t *rapid.T) {
	for m, kind := range w.answerSome(t, w.open) {
		if kind == model.Returned {
			must(t, m.Ack(false))
		}
		w.answered(m, kind)
	}
}

// closeChannel is a channel exception after some answers.
func (w *tracker) closeChannel(t *rapid.T) {
	if len(w.open) == 0 {
		return
	}
	// One is left without an answer: its outcome tells that the client has seen the close.
	kinds, channel := w.answerSome(t, w.open[1:]), w.open[0].Channel
	code := rapid.SampledFrom([]uint16{403, 404, 406}).Draw(t, "code")
	must(t, w.conn.CloseChannel(channel, code, "whatever"))
	for _, m := range slices.Clone(w.open) {
		switch kind := kinds[m]; kind {
		case model.Acked, model.Returned:
			w.answered(m, kind)
		case model.Nacked:
			w.answered(m, model.Nacked, model.Unknown)
		default:
			w.answered(m, model.Unknown)
		}
	}
	w.check(t) // the next send is for the next channel
	w.closed++ // and to another exchange: this one is suspected now
}

// closeAll ends the connection after some answers: in order, or by cutting it, when answers
// may be lost with it.
func (w *tracker) closeAll(t *rapid.T) {
	kinds, cut := w.answerSome(t, w.open), rapid.Bool().Draw(t, "cut")
	if cut {
		w.conn.Cut()
	} else {
		must(t, w.conn.Close(320, "CONNECTION_FORCED"))
	}
	for _, m := range slices.Clone(w.open) {
		kind, answered := kinds[m]
		switch {
		case answered && !cut && kind != model.Nacked:
			w.answered(m, kind)
		case answered:
			w.answered(m, kind, model.Unknown)
		default:
			w.answered(m, model.Unknown)
		}
	}
	w.connected(t)
}

// block is an alarm: nothing is sent through it, and it passes.
func (w *tracker) block(t *rapid.T) {
	must(t, w.conn.Blocked("low on memory"))
	w.until(t, func() bool { return w.sender.Stats().Blocked })
	if w.sender.TryReserve(1, 4) {
		t.Fatal("room was given while the broker blocks")
	}
	must(t, w.conn.Unblocked())
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	must(t, w.sender.WaitReady(ctx))
}
