package collector

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

// Headers of the copies in the uncollectable queue.
const (
	// HeaderProperties holds the letter's properties and headers as they came, as bytes. It is missing where one frame
	// does not hold them.
	HeaderProperties = "transmsg-properties"
	// HeaderWhy says why the letter could not be stored.
	HeaderWhy = "transmsg-uncollectable"
)

// asideTry bounds one try to set a letter aside.
const asideTry = 30 * time.Second

// setAside sends what cannot be stored to the uncollectable queue, and acks it when that is confirmed. What is not
// confirmed stays, and is tried again after a backoff. The error says that the channel is gone.
func (s *subscription) setAside(ctx context.Context) error {
	if len(s.aside) == 0 || time.Now().Before(s.retryAt) {
		return nil
	}
	for len(s.aside) > 0 {
		l := &s.aside[0]
		o := s.send(ctx, l)
		if o.Kind != model.Acked {
			why := fmt.Sprintf("queue %q, for what cannot be stored: the copy was %s", s.q.c.cfg.Uncollectable, o)
			s.q.change(func(st *State) { st.Failed++; st.Reason = why })
			s.q.c.log.Warn("set a dead letter aside", "queue", s.q.name, "outcome", o.String())
			s.retryAt = time.Now().Add(backoff(s.failed))
			s.failed++
			return nil
		}
		s.failed = 0
		s.q.change(func(st *State) { st.Aside++; st.Reason = "" })
		if err := s.ack(l); err != nil {
			return err
		}
		s.aside = s.aside[1:]
	}
	return nil
}

// send sends the copy once.
func (s *subscription) send(ctx context.Context, l *letter) model.Outcome {
	ctx, cancel := context.WithTimeout(ctx, asideTry)
	defer cancel()
	sender := s.q.c.cfg.Sender
	m := s.q.c.copyOf(l, sender.FrameMax())
	if err := sender.Reserve(ctx, 1, int64(len(m.Body))); err != nil {
		return model.Outcome{Kind: model.Deferred, Code: model.CodeNotSent, Text: model.CleanText(err.Error())}
	}
	told := make(outcome, 1)
	// Alone: it is large, and the broker may close the connection for it.
	sender.Send(confirms.Send{Message: &m, Since: time.Now(), Received: true, Alone: true, Handler: told})
	select {
	case o := <-told:
		return o
	case <-ctx.Done(): // it may be there: one more copy
		return model.Outcome{Kind: model.Unknown, Code: model.CodeTimeout, Text: "not confirmed in time"}
	}
}

// copyOf is the letter for the uncollectable queue: its body and id, what could be read of its properties but for
// headers, and all of them as bytes.
func (c *Collector) copyOf(l *letter, frameMax int) model.Message {
	v := l.raw.Properties.View()
	m := model.Message{ID: v.ID, RoutingKey: c.cfg.Uncollectable, Body: l.raw.Body, Properties: v.Properties}
	m.Properties.UserID, m.Properties.Expiration = "", ""
	known := map[string]any{
		HeaderWhy:         l.why,
		model.HeaderQueue: l.letter.Queue, model.HeaderExchange: l.letter.Exchange,
		model.HeaderRoutingKey: l.letter.RoutingKey, model.HeaderRejection: l.letter.ID,
	}
	m.Headers = maps.Clone(known)
	m.Headers[HeaderProperties] = []byte(l.raw.Properties)
	if !model.FitsFrame(&m, frameMax) {
		m.Headers = known
	}
	return m
}

// outcome gets the one outcome of a copy.
type outcome chan model.Outcome

// Done implements confirms.Handler.
func (o outcome) Done(out model.Outcome) { o <- out }

// LateAck implements confirms.Handler: the copy was sent again by then.
func (o outcome) LateAck() {}
