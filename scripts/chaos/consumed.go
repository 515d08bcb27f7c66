package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

// consumed is what became of the messages of the queue that the product consumes.
type consumed struct {
	Messages int `json:"messages"` // that a handler was given
	Calls    int `json:"calls"`
	Effects  int `json:"effects"`
	Skipped  int `json:"skipped"` // calls that found the effect
	Failed   int `json:"failed"`  // calls that failed by chance, and went round the ladder
	Putoff   int `json:"put_off"` // calls answered unavailable or busy
	// Copies are deliveries beyond the first of each attempt, by their cause.
	Copies map[string]int `json:"copies"`
	// DeadLetters must be none: no message fails for good, and none ends its process.
	DeadLetters int `json:"dead_letters"`

	wrong       []string // messages with another number of effects than one
	unexplained []string
}

// endConsumers lets consumers handle all that is in queue and ladder, stops them, and reads what they have left.
func (r *run) endConsumers(ctx context.Context) error {
	if !r.opts.consumers {
		return nil
	}
	// The error is in the verdict: the message has no effect.
	_ = until(ctx, 2*time.Minute, "every message that was handled has its effect", func() bool {
		return r.book.unfinished() == 0
	})
	if err := r.fleet.stopAll(roleConsumer); err != nil {
		return err
	}
	err := r.topology(func(c *amqptest.Client) error {
		for i := range workLadder().Steps {
			n, err := c.Depth(workLadder().StepQueue(i))
			if err != nil {
				return err
			}
			if n > 0 {
				r.left = append(r.left, fmt.Sprintf("%d copies in %s", n, workLadder().StepQueue(i)))
			}
		}
		letters, err := c.Drain(deadLetters)
		for _, d := range letters {
			r.dead = append(r.dead, fmt.Sprintf("%s: %v %v", d.MessageId, d.Headers[model.HeaderCause],
				d.Headers[model.HeaderError]))
		}
		return err
	})
	if err != nil {
		return err
	}
	r.effects, err = readEffects(ctx, r)
	return err
}

func readEffects(ctx context.Context, r *run) (map[string]int, error) {
	rows, err := r.db.pool().QueryContext(ctx, "SELECT message, COUNT(*) FROM chaos_effect GROUP BY message")
	if err != nil {
		return nil, fmt.Errorf("read the effects: %w", err)
	}
	defer rows.Close()
	out := map[string]int{}
	for rows.Next() {
		var id string
		var n int
		if err := rows.Scan(&id, &n); err != nil {
			return nil, fmt.Errorf("read the effects: %w", err)
		}
		out[id] = n
	}
	return out, rows.Err()
}

// consumed compares the calls with the effects, and gives the evidence what the counter has of other queues: the first
// attempts are arrivals of what publishers sent.
func (e *evidence) consumed(effects map[string]int) consumed {
	t := consumed{Copies: map[string]int{}}
	h := &e.book.handled
	for id := range h.changed {
		e.counter.changed = append(e.counter.changed, id)
	}
	for _, m := range e.members {
		if m.role == roleConsumer && m.killed > 0 {
			e.counter.dials = append(e.counter.dials, m.killed)
		}
	}
	for id, calls := range h.calls {
		slices.SortFunc(calls, func(a, b *handling) int { return int(a.at - b.at) })
		t.Messages++
		got := &arrivals{}
		e.counter.got[place{id, queueQuorum}] = got
		for i, c := range calls {
			t.count(c)
			switch {
			case c.again:
			case c.attempt == 1 && !c.redelivered:
				got.plain = append(got.plain, c.at)
			default:
				got.redelivered++
				t.explain(e, id, calls[:i], c)
			}
		}
		if effects[id] != 1 {
			t.wrong = append(t.wrong, fmt.Sprintf("%s has %d effects: %s", id, effects[id], e.story(id)))
		}
	}
	for id, n := range effects {
		t.Effects += n
		if h.calls[id] == nil {
			t.wrong = append(t.wrong, fmt.Sprintf("%s has %d effects and was not handled", id, n))
		}
	}
	return t
}

func (t *consumed) count(c *handling) {
	t.Calls++
	switch c.answer {
	case "skipped":
		t.Skipped++
	case "failed":
		t.Failed++
	case "unavailable", "busy":
		t.Putoff++
	}
}

// explain finds the cause of a delivery that was not the first of its message.
func (t *consumed) explain(e *evidence, id string, before []*handling, c *handling) {
	switch cause := e.copied(before, c); cause {
	case "":
		t.unexplained = append(t.unexplained,
			fmt.Sprintf("%s attempt %d by %s: %s", id, c.attempt, c.proc, e.story(id)))
	case firstCopy:
	default:
		t.Copies[cause]++
	}
}

// The causes of copies.
const (
	firstCopy     = "ladder"     // of each failed attempt there is one
	causeReturned = "redelivery" // untouched before, or a consumer or its connection ended
	causeTwice    = "copied-twice"
)

// copied says why a delivery came that was not the first of its message, or "".
func (e *evidence) copied(before []*handling, c *handling) string {
	failures, copies := 0, 0
	var same *handling // an earlier call at the same attempt
	for _, b := range before {
		if b.attempt == c.attempt-1 && (b.answer == "failed" || b.done == 0) {
			failures++
		}
		if b.attempt == c.attempt {
			same = b
			if !b.redelivered {
				copies++
			}
		}
	}
	switch {
	case c.redelivered && (same == nil || e.consumerEnded(same.at, c.at)):
		return causeReturned
	case !c.redelivered && copies < failures:
		return firstCopy
	case !c.redelivered && failures > 0 && e.consumerEnded(before[0].at, c.at):
		return causeTwice // its confirm was lost, or the process ended between confirm and ack
	}
	return ""
}

// consumerEnded says whether a process that consumes, or one of its connections, ended in that time.
func (e *evidence) consumerEnded(from, to int64) bool {
	for _, m := range e.members {
		if m.role == roleConsumer && m.killed >= from && m.killed <= to {
			return true
		}
		for _, p := range m.pauses {
			if m.role == roleConsumer && p.to-p.from >= leaseWorth && p.from <= to && p.to >= from {
				return true
			}
		}
	}
	return slices.ContainsFunc(e.book.events, func(v event) bool {
		m := e.members[v.proc]
		return m != nil && m.role == roleConsumer && v.at >= from && v.at <= to &&
			(v.word == wordDisconnected || v.word == wordChannelClosed || v.word == wordStopped || v.word == wordStuck)
	})
}

func (s *summary) addConsumed(c consumed, dead []string) {
	c.DeadLetters = len(dead)
	s.Consumed = &c
	s.failAll("not one effect", c.wrong)
	s.failAll("unexplained copies", c.unexplained)
	s.failAll("dead letters", dead)
	if c.Effects == 0 || c.Failed == 0 {
		s.fail("%d effects and %d failures: the run proves nothing about consumers", c.Effects, c.Failed)
	}
}
