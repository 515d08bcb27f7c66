package consumer

import "time"

// MaxSamples is what a step's history keeps at most.
const MaxSamples = maxSamples

// NewStepAges returns what tells the age of a step's oldest message from looks at it, and how many looks are kept.
func NewStepAges() func(messages int, published int64, now time.Time) (oldest time.Duration, kept int) {
	h := &stepHistory{}
	return func(messages int, published int64, now time.Time) (time.Duration, int) {
		s := stepSample{Messages: messages}
		s.Stats.Published = published
		return h.oldest(s, now), len(h.samples)
	}
}

// Joined makes one observer of several.
var Joined = joined
