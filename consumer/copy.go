package consumer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

// sendTry bounds the wait for room at the sender: one that has no connection has none.
const sendTry = 10 * time.Second

// failed notes one more failure of the message.
func (d *delivery) failed(err error) {
	f := &Failure{At: time.Now().Truncate(time.Millisecond), Text: model.CleanText(err.Error())}
	m := *d.m
	if m.First == nil {
		m.First = f
	}
	m.Last = f
	d.m = &m
}

// next is the message at its next attempt in place.
func (m *Message) next() *Message {
	n := *m
	n.Attempt++
	return &n
}

// retryLater sends the copy for the next step, and acks the original when that is confirmed. A crash between the two is
// one more copy.
func (q *queue) retryLater(d *delivery) Result {
	step := min(d.m.Attempt, len(q.cfg.Steps)) - 1
	c := q.copyOf(d, "", q.cfg.ladder().StepQueue(step))
	c.Headers[model.HeaderAttempts] = int64(d.m.Attempt)
	if why := q.send(d, c); why != nil {
		return d.drop(why)
	}
	return d.ack(Retried)
}

// giveUp sends the dead letter, and acks the original when that is confirmed. The id of the rejection stays the same
// however often the copy is sent.
func (q *queue) giveUp(d *delivery, err error, cause string) Result {
	if d.m.Last == nil || errors.Is(err, errCrashed) {
		d.failed(err)
	}
	d.cause = cause
	c := q.copyOf(d, q.cfg.DeadLetterExchange, q.cfg.DeadLetterKey)
	c.Headers[model.HeaderAttempts] = int64(d.m.Attempt)
	if cause == causeCrashed {
		c.Headers[model.HeaderAttempts] = int64(d.m.Attempt - 1)
	}
	c.Headers[model.HeaderCause] = cause
	c.Headers[model.HeaderRejection] = model.NewID()
	if why := q.send(d, c); why != nil {
		return d.drop(why)
	}
	q.log.Warn("dead letter", "cause", cause, "message", d.m.ID, "attempt", d.m.Attempt, "error", d.m.Last.Text)
	return d.ack(DeadLettered)
}

// toItself is the message for its own queue, with a count of the times it was handled alone.
func (q *queue) toItself(d *delivery, crashes int) model.Message {
	c := q.copyOf(d, "", q.cfg.Name)
	c.Headers[model.HeaderCrashes] = int64(crashes)
	return c
}

// copyOf is the message as a copy of it is sent: without what the broker added (a copy with an old x-death can be
// dropped as a cycle), without what would route it elsewhere, end it early or be refused for another login, and with
// what happened to it in headers of ours.
func (q *queue) copyOf(d *delivery, exchange, key string) model.Message {
	h := make(map[string]any, len(d.m.Headers)+12)
	maps.Copy(h, d.m.Headers)
	for k := range h {
		if model.BrokerMade(k) || k == model.HeaderCrashes {
			delete(h, k)
		}
	}
	m := d.m
	h[model.HeaderExchange], h[model.HeaderRoutingKey], h[model.HeaderQueue] = m.Exchange, m.RoutingKey, m.Queue
	if m.Properties.Expiration != "" {
		h[model.HeaderExpiration] = m.Properties.Expiration
	}
	if m.Key != "" {
		h[model.HeaderKey] = m.Key
	}
	for _, f := range [...]struct {
		failure  *Failure
		at, text string
	}{
		{m.First, model.HeaderFirstFailedAt, model.HeaderFirstError},
		{m.Last, model.HeaderFailedAt, model.HeaderError},
	} {
		if f.failure != nil {
			h[f.at], h[f.text] = f.failure.At.UnixMilli(), f.failure.Text
		}
	}
	c := model.Message{
		ID: m.ID, Exchange: exchange, RoutingKey: key, Body: m.Body, Headers: h, Properties: m.Properties,
	}
	c.Properties.Expiration, c.Properties.UserID = "", ""
	return c
}

// fit drops from a copy's headers what is too much for one frame: the broker would close the sender's connection. First
// the texts of ours; the largest of the message's own only where it hardly fitted before.
func fit(c *model.Message, frameMax int) {
	for _, k := range [...]string{model.HeaderFirstError, model.HeaderError, model.HeaderKey} {
		if model.FitsFrame(c, frameMax) {
			return
		}
		delete(c.Headers, k)
	}
	for !model.FitsFrame(c, frameMax-1024) {
		largest := model.LargestHeader(c.Headers)
		if largest == "" {
			return
		}
		delete(c.Headers, largest)
		c.Headers[headerDropped] = largest
	}
}

// headerDropped names a header of the message for which a copy had no room.
const headerDropped = "transmsg-dropped-header"

// gateOf is the gate of a copy's target.
func (q *queue) gateOf(c *model.Message) *gate {
	target := fmt.Sprintf("exchange %q, routing key %q", c.Exchange, c.RoutingKey)
	if c.Exchange == "" {
		target = fmt.Sprintf("queue %q", c.RoutingKey)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	g := q.copies[target]
	if g == nil {
		g = &gate{what: target, target: [2]string{c.Exchange, c.RoutingKey}, limit: q.cfg.MaxBackoff}
		q.copies[target] = g
	}
	return g
}

// send sends a copy until it is confirmed and routed. Until then the original stays unacked and the queue takes nothing
// new; one message at a time tries again. The error says that d waits no longer.
func (q *queue) send(d *delivery, c model.Message) error {
	fit(&c, d.s.se.dialled.FrameMax)
	g := q.gateOf(&c)
	for {
		if why := q.await(d, func(now time.Time) (bool, time.Time) { return g.pass(d, now) }); why != nil {
			return why
		}
		o, why := q.trySend(d, &c)
		if why != nil {
			return why
		}
		if o.Kind == model.Acked {
			q.stats.copies.Add(1)
			q.isThere(d, g)
			return nil
		}
		q.stats.copiesFailed.Add(1)
		q.isAway(d, g, fmt.Sprintf("%s: the copy of a message was %s", g.what, o))
	}
}

// trySend sends a copy once and waits for its outcome. A sender has each id in flight once.
func (q *queue) trySend(d *delivery, c *model.Message) (model.Outcome, error) {
	ctx, cancel := d.waiting()
	defer cancel()
	unlock, err := q.c.ids.lock(ctx, c.ID)
	if err != nil {
		return model.Outcome{}, context.Cause(ctx)
	}
	defer unlock()
	room, cancelRoom := context.WithTimeout(ctx, sendTry)
	defer cancelRoom()
	if err := q.c.cfg.Sender.Reserve(room, 1, int64(len(c.Body))); err != nil {
		if ctx.Err() != nil {
			return model.Outcome{}, context.Cause(ctx)
		}
		return model.Outcome{Kind: model.Deferred, Code: model.CodeNotSent, Text: model.CleanText(err.Error())}, nil
	}
	told := make(outcome, 1)
	q.c.cfg.Sender.Send(confirms.Send{Message: c, Since: time.Now(), Received: true, Handler: told})
	select {
	case o := <-told:
		return o, nil
	case <-ctx.Done():
		// It may be in its queue: one more copy. The message is not changed while the sender has it.
		return model.Outcome{}, context.Cause(ctx)
	}
}

// outcome gets the one outcome of a copy.
type outcome chan model.Outcome

// Done implements confirms.Handler.
func (o outcome) Done(out model.Outcome) { o <- out }

// LateAck implements confirms.Handler: the copy was sent again by then.
func (o outcome) LateAck() {}
