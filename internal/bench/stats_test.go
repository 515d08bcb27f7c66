package bench_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/bench"
)

func TestMedianIsTheMiddleOrTheMeanOfTheTwo(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{1, 1, 100}, 1},
	} {
		before := slices.Clone(c.values)
		if got := bench.Median(c.values); got != c.want {
			t.Errorf("Median(%v) = %v, want %v", c.values, got, c.want)
		}
		if !slices.Equal(before, c.values) {
			t.Errorf("Median changed its argument to %v", c.values)
		}
	}
	if got := bench.Median(nil); !math.IsNaN(got) {
		t.Errorf("Median of nothing = %v, want NaN", got)
	}
}

func TestLimitIsTheCostOfOneAfterTheOther(t *testing.T) {
	for _, c := range []struct{ publish, store, want float64 }{
		{20000, 20000, 10000}, {30000, 15000, 10000}, {0, 20000, 0}, {20000, 0, 0},
	} {
		if got := bench.Limit(c.publish, c.store); math.Abs(got-c.want) > 1e-6 {
			t.Errorf("Limit(%v, %v) = %v, want %v", c.publish, c.store, got, c.want)
		}
	}
}

func TestPercentilesAreNearestRankInMicroseconds(t *testing.T) {
	times := make([]time.Duration, 200)
	for i := range times {
		times[i] = time.Duration(200-i) * time.Microsecond // falling: they must be sorted
	}
	want := bench.Percentiles{P50: 100, P95: 190, P99: 198}
	if got := bench.PercentilesOf(times); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	one := bench.PercentilesOf([]time.Duration{1500})
	if one.P50 != 1.5 || one.P99 != 1.5 {
		t.Errorf("of one value: %+v, want it everywhere", one)
	}
}

func TestSharesAddUp(t *testing.T) {
	for _, c := range []struct{ n, parts int }{{10, 3}, {2, 5}, {1000, 7}, {1024, 1024}} {
		sum := 0
		for _, s := range bench.Shares(c.n, c.parts) {
			if s < c.n/c.parts || s > c.n/c.parts+1 {
				t.Errorf("share %d of %d in %d parts is not even", s, c.n, c.parts)
			}
			sum += s
		}
		if sum != c.n {
			t.Errorf("shares of %d in %d parts add up to %d", c.n, c.parts, sum)
		}
	}
}
