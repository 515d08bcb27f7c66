package bench

import (
	"math"
	"slices"
	"time"
)

// Median returns the middle value, or the mean of the two in the middle; NaN without
// values. It leaves values as they are.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}

// Limit is L = 1 / (1/publish + 1/store): the rate at which one unit of work after the
// other goes through both. It is 0 where one of them is.
func Limit(publish, store float64) float64 {
	if publish <= 0 || store <= 0 {
		return 0
	}
	return 1 / (1/publish + 1/store)
}

// ratio is a/b, and NaN where there is no b to compare with.
func ratio(a, b float64) float64 {
	if b == 0 {
		return math.NaN()
	}
	return a / b
}

// Percentiles are times in microseconds, nearest rank.
type Percentiles struct{ P50, P95, P99 float64 }

// percentiles sorts times in place. Without times all are NaN.
func percentiles(times []time.Duration) Percentiles {
	slices.Sort(times)
	return Percentiles{P50: rank(times, 50), P95: rank(times, 95), P99: rank(times, 99)}
}

// rank is the smallest value that percent of the sorted values do not exceed.
func rank(sorted []time.Duration, percent int) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	i := (len(sorted)*percent + 99) / 100
	return float64(sorted[max(i, 1)-1].Nanoseconds()) / 1e3
}

// rate is messages per second.
func rate(n int, elapsed time.Duration) float64 { return ratio(float64(n), elapsed.Seconds()) }
