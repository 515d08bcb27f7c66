package model

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// MaxStep is the longest step of a ladder: beyond it a queue's TTL timer does not go.
const MaxStep = 24 * time.Hour

// maxSteps bounds a ladder's length.
const maxSteps = 32

// DefaultSteps returns the steps of a ladder that was not configured: 1 s, 5 s, 30 s, 5 min.
func DefaultSteps() []time.Duration {
	return []time.Duration{time.Second, 5 * time.Second, 30 * time.Second, 5 * time.Minute}
}

// Ladder is the retry queues of one work queue. A failed message's copy waits in the queue of its step and is then
// dead-lettered by the broker, through the default exchange, to the work queue and to nothing else.
type Ladder struct {
	// Queue is the work queue.
	Queue string
	// Steps are the waits before the second, third, ... attempt: whole milliseconds, each other than the others. They
	// need not grow. A message has one attempt more than there are steps.
	Steps []time.Duration
}

// Attempts is how many attempts a message has.
func (l Ladder) Attempts() int { return len(l.Steps) + 1 }

// StepQueue is the name of a step's queue, such as "orders.retry.5m".
func (l Ladder) StepQueue(step int) string { return l.Queue + ".retry." + StepName(l.Steps[step]) }

// StepName is the name of a step, such as "500ms", "30s", "5m" or "1h30m".
func StepName(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// StepArguments are the arguments of a step's queue: quorum, with the step as the queue's TTL. A message leaves it only
// when the work queue has confirmed it (at-least-once, which needs reject-publish), so that it waits where the work
// queue is full or away.
func (l Ladder) StepArguments(step int) map[string]any {
	return map[string]any{
		"x-queue-type":              "quorum",
		"x-message-ttl":             l.Steps[step].Milliseconds(),
		"x-dead-letter-exchange":    "",
		"x-dead-letter-routing-key": l.Queue,
		"x-dead-letter-strategy":    "at-least-once",
		"x-overflow":                "reject-publish",
	}
}

// IsStepOf reports whether a queue's name is that of a step of the work queue's ladder, whatever the step.
func IsStepOf(name, queue string) bool { return strings.HasPrefix(name, queue+".retry.") }

// Check says what is wrong with the ladder, or nil.
func (l Ladder) Check() error {
	if l.Queue == "" || strings.HasPrefix(l.Queue, "amq.") {
		return fmt.Errorf("ladder: queue %q must have a name, not one of the broker's own (they begin with amq.)",
			l.Queue)
	}
	if len(l.Steps) > maxSteps {
		return fmt.Errorf("ladder of %s: %d steps, at most %d", l.Queue, len(l.Steps), maxSteps)
	}
	for i, d := range l.Steps {
		switch {
		case d < time.Millisecond || d > MaxStep || d%time.Millisecond != 0:
			return fmt.Errorf("ladder of %s: step %s must be whole milliseconds from 1ms to %s", l.Queue, d, MaxStep)
		case slices.Contains(l.Steps[:i], d):
			return fmt.Errorf("ladder of %s: step %s is there twice", l.Queue, d)
		case len(l.StepQueue(i)) > maxShortStr:
			return fmt.Errorf("ladder of %s: the name of step %s has %d bytes, the limit is %d",
				l.Queue, d, len(l.StepQueue(i)), maxShortStr)
		}
	}
	return nil
}
