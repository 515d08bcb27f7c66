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
	// Zero means the default of 0.2; -1 means none.
	Jitter float64
	// MaxAttempts is the number of sends answered with a failure about the message
	// itself after which it goes DEAD. At least 1. Defaults to 10.
	MaxAttempts int
	// MaxAge is the age, from the row's first answered failure since it was stored or replayed,
	// from which a failed send makes it DEAD whatever its attempts; a first answer never does.
	// Zero means no limit.
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
	case math.IsNaN(p.Jitter) || (p.Jitter != -1 && (p.Jitter < 0 || p.Jitter > 1)):
		return fmt.Errorf("policy: Jitter %v must be 0 to 1, or -1 for none", p.Jitter)
	case p.MaxAttempts < 1:
		return fmt.Errorf("policy: MaxAttempts %d must be at least 1", p.MaxAttempts)
	case p.MaxAge < 0:
		return fmt.Errorf("policy: MaxAge %v must not be negative", p.MaxAge)
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

// Exhausted reports whether a row with this many counted attempts and this age is out
// of tries.
func (p Policy) Exhausted(attempts int, age time.Duration) bool {
	return attempts >= p.MaxAttempts || (p.MaxAge > 0 && age >= p.MaxAge)
}
