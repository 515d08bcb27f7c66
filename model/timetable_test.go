package model_test

import (
	"math"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

func TestS5_TimetableEndsWhereTheRowIsDead(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		policy                model.Policy
		exhausted, dead       time.Duration
		attempts, whenAllUsed int
	}{
		"defaults":       {model.Policy{}, 511 * time.Second, 3811 * time.Second, 21, 10},
		"attempts alone": {model.Policy{MinDeadAge: model.None}, 511 * time.Second, 511 * time.Second, 10, 10},
		"age alone": {
			model.Policy{MinDeadAge: model.None, MaxAge: time.Minute, MaxAttempts: 1000},
			math.MaxInt64,
			63 * time.Second, 7, 0,
		},
		"a delay without end": {
			model.Policy{BaseDelay: math.MaxInt64, MaxDelay: math.MaxInt64, Jitter: model.None, MaxAttempts: 3},
			math.MaxInt64, math.MaxInt64, 3, 3,
		},
	} {
		exhausted, used := time.Duration(math.MaxInt64), 0
		var last model.Step
		for s := range tc.policy.WithDefaults().Timetable() {
			if s.Exhausted && used == 0 {
				exhausted, used = s.At, s.Attempt
			}
			last = s
		}
		if exhausted != tc.exhausted || used != tc.whenAllUsed || last.At != tc.dead || last.Attempt != tc.attempts ||
			!last.Dead || last.Delay != 0 {
			t.Errorf("%s: used up after %v by attempt %d, last %+v; want %+v", name, exhausted, used, last, tc)
		}
	}
}
