package model

import (
	"iter"
	"math"
	"time"
)

// Step is one send of a message that is answered with a failure each time.
type Step struct {
	// Attempt counts the sends, from 1 on.
	Attempt int
	// At is the time since the first of them.
	At time.Duration
	// Delay is the wait until the next one; 0 for the last.
	Delay time.Duration
	// Exhausted says that the attempts are used up with this one, or were before, and Dead that it
	// makes the row DEAD.
	Exhausted, Dead bool
}

// Timetable yields what becomes of a message that the broker answers with a failure each time, in
// the middle of the jitter, up to the send that makes it DEAD. What the answers themselves take,
// and the time until a run begins, is left out.
func (p Policy) Timetable() iter.Seq[Step] {
	return func(yield func(Step) bool) {
		for s := (Step{Attempt: 1}); ; s.Attempt++ {
			s.Exhausted, s.Dead = p.Exhausted(s.Attempt), p.GivesUp(s.Attempt, s.At)
			switch {
			case s.Dead:
				s.Delay = 0
			case s.Exhausted:
				s.Delay = p.LongestDelay(0.5)
			default:
				s.Delay = p.Delay(s.Attempt, 0.5)
			}
			if !yield(s) || s.Dead {
				return
			}
			if s.At += s.Delay; s.At < 0 { // beyond what a duration holds
				s.At = math.MaxInt64
			}
		}
	}
}
