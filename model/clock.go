package model

import (
	"math"
	"time"
)

// MillisToDuration is a number of milliseconds as a duration, which holds 292 years: what is
// beyond becomes the longest or the shortest there is.
func MillisToDuration(ms int64) time.Duration {
	const top = int64(math.MaxInt64 / time.Millisecond)
	switch {
	case ms > top:
		return math.MaxInt64
	case ms < -top:
		return math.MinInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// instant is t in Unix milliseconds, rounded up, so that nothing is early: 0 where t is zero,
// and positive otherwise.
func instant(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) > 0 {
		ms++
	}
	return max(ms, 1)
}

// DurationToMillis is a duration in whole milliseconds, rounded up, so that no wait becomes
// none; negative counts as zero.
func DurationToMillis(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Millisecond) + 1
}
