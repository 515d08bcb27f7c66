package model

import (
	"fmt"
	"math"
	"time"
)

// Defaults of [Policy].
const (
	DefaultBaseDelay   = time.Second
	DefaultMultiplier  = 2.0
	DefaultMaxDelay    = 5 * time.Minute
	DefaultJitter      = 0.2
	DefaultMaxAttempts = 10
	DefaultMinDeadAge  = time.Hour
)

// Policy says how long to wait after a failure and when to give up. It is a plain
// value, pure, and safe for concurrent use. The zero value means the defaults; a
// partly filled one is completed by [Policy.WithDefaults].
type Policy struct {
	// BaseDelay follows the first failure. At least 1 ms. Defaults to 1 s.
	BaseDelay time.Duration
	// Multiplier is the growth from failure to failure, 1 to 100. Defaults to 2.
	Multiplier float64
	// MaxDelay caps the delay before jitter. Not below BaseDelay. Defaults to 5 min.
	MaxDelay time.Duration
	// Jitter spreads each delay by up to this share either way, 0 to 1: 0.2 means 20 %.
	// Defaults to 0.2; [None] sends every row after the same delay.
	Jitter float64
	// MaxAttempts is the number of sends answered with a failure about the message itself
	// after which a person is told of it, and after which it goes DEAD once it is as old as
	// MinDeadAge. At least 1. Defaults to 10.
	MaxAttempts int
	// MinDeadAge is the least age, from the row's first answered failure since it was stored or
	// replayed, at which used-up attempts make it DEAD: a node of the broker that is down, or a
	// queue that is full, answers as a missing binding does. Until then it is sent on at the
	// longest delay. Defaults to 1 h; [None] is the plain rule of attempts.
	MinDeadAge time.Duration
	// MaxAge is the age, counted in the same way, from which a failed send makes it DEAD whatever
	// its attempts; a first answer never does. Not below MinDeadAge. Defaults to [None].
	MaxAge time.Duration
}

// WithDefaults returns p with every zero field set to its default.
func (p Policy) WithDefaults() Policy {
	if p.BaseDelay == 0 {
		p.BaseDelay = DefaultBaseDelay
	}
	if p.Multiplier == 0 {
		p.Multiplier = DefaultMultiplier
	}
	if p.MaxDelay == 0 {
		p.MaxDelay = DefaultMaxDelay
	}
	if p.Jitter == 0 {
		p.Jitter = DefaultJitter
	}
	if p.MaxAttempts == 0 {
		p.MaxAttempts = DefaultMaxAttempts
	}
	if p.MinDeadAge == 0 {
		p.MinDeadAge = DefaultMinDeadAge
	}
	return p
}

// Validate reports the first field that is out of bounds, by name, value and bound.
// Call it on a policy with defaults applied.
func (p Policy) Validate() error {
	switch {
	case p.BaseDelay < time.Millisecond:
		return fmt.Errorf("policy: BaseDelay %v must be at least 1ms", p.BaseDelay)
	case math.IsNaN(p.Multiplier) || p.Multiplier < 1 || p.Multiplier > 100:
		return fmt.Errorf("policy: Multiplier %v must be 1 to 100", p.Multiplier)
	case p.MaxDelay < p.BaseDelay:
		return fmt.Errorf("policy: MaxDelay %v must not be below BaseDelay %v", p.MaxDelay, p.BaseDelay)
	case math.IsNaN(p.Jitter) || (p.Jitter != None && (p.Jitter < 0 || p.Jitter > 1)):
		return fmt.Errorf("policy: Jitter %v must be 0 to 1, or None", p.Jitter)
	case p.MaxAttempts < 1:
		return fmt.Errorf("policy: MaxAttempts %d must be at least 1", p.MaxAttempts)
	case p.MinDeadAge < 0 && p.MinDeadAge != None:
		return fmt.Errorf("policy: MinDeadAge %v must not be negative, other than None", p.MinDeadAge)
	case p.MaxAge < 0 && p.MaxAge != None:
		return fmt.Errorf("policy: MaxAge %v must not be negative, other than None", p.MaxAge)
	case p.MaxAge > 0 && p.MaxAge < p.MinDeadAge:
		return fmt.Errorf("policy: MaxAge %v must not be below MinDeadAge %v: rows would go DEAD before they may; "+
			"raise the one, or lower the other", p.MaxAge, p.MinDeadAge)
	}
	return nil
}

// Delay returns how long to wait after the given number of failures (1 or more; less
// counts as 1): min(MaxDelay, BaseDelay*Multiplier^(failures-1)), spread by the jitter.
// r is a random number from 0 up to but not including 1. The result is at least 1 ms
// and at most MaxDelay*(1+Jitter).
func (p Policy) Delay(failures int, r float64) time.Duration {
	if failures < 1 {
		failures = 1
	}
	delay := p.MaxDelay
	// False also for NaN and +Inf. The cap is not taken from a float64: it would round.
	if d := float64(p.BaseDelay) * math.Pow(p.Multiplier, float64(failures-1)); d < float64(p.MaxDelay) {
		delay = time.Duration(d)
	}
	if p.Jitter > 0 {
		d := float64(delay) * (1 - p.Jitter + 2*p.Jitter*r)
		if d >= math.MaxInt64 { // what is above the range would convert to anything
			return math.MaxInt64
		}
		delay = time.Duration(d)
	}
	return max(delay, time.Millisecond)
}

// LongestDelay is the largest that [Policy.Delay] comes to: that of a row whose attempts are
// used up and that may not go DEAD yet. r is as there.
func (p Policy) LongestDelay(r float64) time.Duration { return p.Delay(math.MaxInt, r) }

// Exhausted reports whether this many counted attempts are all that a row has.
func (p Policy) Exhausted(attempts int) bool { return attempts >= p.MaxAttempts }

// GivesUp reports whether a row with this many counted attempts and this age, both as they are
// with a failure that has just been answered, goes DEAD.
func (p Policy) GivesUp(attempts int, age time.Duration) bool {
	return (p.Exhausted(attempts) && age >= p.MinDeadAge) || (p.MaxAge > 0 && age >= p.MaxAge)
}
