package model_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/transmsg/transmsg/model"
)

func anyPolicy() *rapid.Generator[model.Policy] {
	return rapid.Custom(func(t *rapid.T) model.Policy {
		p := model.Policy{
			BaseDelay: time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(time.Hour)).Draw(t, "base")),
			// In hundredths: growth below one ulp of a float64 is no growth.
			Multiplier:  float64(rapid.IntRange(100, 10000).Draw(t, "multiplier %")) / 100,
			Jitter:      rapid.SampledFrom([]float64{-1, 0.01, 0.2, 0.5, 1}).Draw(t, "jitter"),
			MaxAttempts: rapid.IntRange(1, 1000).Draw(t, "attempts"),
		}
		p.MaxDelay = time.Duration(rapid.OneOf(
			rapid.Int64Range(int64(p.BaseDelay), int64(24*time.Hour)),
			rapid.Int64Range(int64(p.BaseDelay), math.MaxInt64),
			rapid.Just(int64(math.MaxInt64)),
		).Draw(t, "max"))
		return p
	})
}

func TestPolicyDelayToAThousandFailures(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyPolicy().Draw(t, "policy")
		if err := p.Validate(); err != nil {
			t.Fatal(err)
		}
		r := rapid.SampledFrom([]float64{0, 0.25, 0.5, math.Nextafter(1, 0)}).Draw(t, "r")
		plain := p
		plain.Jitter = model.None
		previous := time.Duration(0)
		for n := 1; n <= 1000; n++ {
			d := plain.Delay(n, r)
			if d < previous || d < p.BaseDelay || d > p.MaxDelay {
				t.Fatalf("Delay(%d) = %d after %d, want a rise within %d and %d",
					n, d, previous, p.BaseDelay, p.MaxDelay)
			}
			previous = d
			checkSpread(t, p, n, r, d)
		}
	})
}

// checkSpread checks that the jittered delay lies within its share of the plain one.
func checkSpread(t *rapid.T, p model.Policy, n int, r float64, plain time.Duration) {
	t.Helper()
	jitter := max(p.Jitter, 0)
	// One in 2^50 for the rounding of the bounds themselves.
	low := float64(plain)*(1-jitter)*(1-0x1p-50) - 1
	high := float64(plain)*(1+jitter)*(1+0x1p-50) + 1
	if high > math.MaxInt64 {
		high, low = math.MaxInt64, min(low, math.MaxInt64)
	}
	d := p.Delay(n, r)
	if d < time.Millisecond || float64(d) > high {
		t.Fatalf("Delay(%d, %v) = %d, want 1ms to %v", n, r, d, high)
	}
	if d != time.Millisecond && float64(d) < low {
		t.Fatalf("Delay(%d, %v) = %d, want at least %v", n, r, d, low)
	}
}

func TestPolicyDelayValues(t *testing.T) {
	t.Parallel()
	def := model.Policy{}.WithDefaults()
	none := def
	none.Jitter = model.None
	full := model.Policy{BaseDelay: time.Second, Multiplier: 2, MaxDelay: time.Minute, Jitter: 1}
	huge := model.Policy{BaseDelay: math.MaxInt64, Multiplier: 100, MaxDelay: math.MaxInt64, Jitter: 1}
	for _, tc := range []struct {
		name     string
		policy   model.Policy
		failures int
		r        float64
		want     time.Duration
	}{
		{"negative failures count as one", none, -5, 0, time.Second},
		{"no failures count as one", none, 0, 0, time.Second},
		{"first", none, 1, 0, time.Second},
		{"second", none, 2, 0, 2 * time.Second},
		{"ninth", none, 9, 0, 256 * time.Second},
		{"capped", none, 10, 0, 5 * time.Minute},
		{"far beyond a float64", none, math.MaxInt, 0, 5 * time.Minute},
		{"jitter low", def, 1, 0, 800 * time.Millisecond},
		{"jitter middle", def, 1, 0.5, time.Second},
		{"jitter on top of the cap", def, 100, 0.75, 330 * time.Second},
		{"never zero", full, 1, 0, time.Millisecond},
		{"largest delay does not wrap", huge, 1, 0.5, math.MaxInt64},
		{"largest delay with jitter does not wrap", huge, 1000, 0.99, math.MaxInt64},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := tc.policy.Delay(tc.failures, tc.r); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestPolicyValidateNamesFieldValueAndBound(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*model.Policy)
		want   string // "" is valid
	}{
		{"defaults", func(*model.Policy) {}, ""},
		{"smallest base", func(p *model.Policy) { p.BaseDelay = time.Millisecond }, ""},
		{
			"base below", func(p *model.Policy) { p.BaseDelay = time.Millisecond - 1 },
			"BaseDelay 999.999µs must be at least 1ms",
		},
		{"base negative", func(p *model.Policy) { p.BaseDelay = -1 }, "BaseDelay -1ns must be at least 1ms"},
		{"multiplier one", func(p *model.Policy) { p.Multiplier = 1 }, ""},
		{"multiplier shrinks", func(p *model.Policy) { p.Multiplier = 0.5 }, "Multiplier 0.5 must be 1 to 100"},
		{"multiplier above", func(p *model.Policy) { p.Multiplier = 100.5 }, "Multiplier 100.5 must be 1 to 100"},
		{"multiplier NaN", func(p *model.Policy) { p.Multiplier = math.NaN() }, "Multiplier NaN must be 1 to 100"},
		{"max equals base", func(p *model.Policy) { p.MaxDelay = p.BaseDelay }, ""},
		{
			"max below base", func(p *model.Policy) { p.MaxDelay = p.BaseDelay - 1 },
			"MaxDelay 999.999999ms must not be below BaseDelay 1s",
		},
		{"jitter one", func(p *model.Policy) { p.Jitter = 1 }, ""},
		{"jitter none", func(p *model.Policy) { p.Jitter = model.None }, ""},
		{"jitter above", func(p *model.Policy) { p.Jitter = 1.5 }, "Jitter 1.5 must be 0 to 1, or None"},
		{"jitter negative", func(p *model.Policy) { p.Jitter = -0.5 }, "Jitter -0.5 must be 0 to 1, or None"},
		{"jitter NaN", func(p *model.Policy) { p.Jitter = math.NaN() }, "Jitter NaN must be"},
		{"attempts negative", func(p *model.Policy) { p.MaxAttempts = -1 }, "MaxAttempts -1 must be at least 1"},
		{"age negative", func(p *model.Policy) { p.MaxAge = -time.Second }, "MaxAge -1s must not be negative"},
		{"no least age", func(p *model.Policy) { p.MinDeadAge, p.MaxAge = model.None, time.Second }, ""},
		{"least age negative", func(p *model.Policy) { p.MinDeadAge = -2 }, "MinDeadAge -2ns must not be negative"},
		{"no greatest age", func(p *model.Policy) { p.MaxAge = model.None }, ""},
		{"ages equal", func(p *model.Policy) { p.MaxAge = time.Hour }, ""},
		{
			"greatest age below the least", func(p *model.Policy) { p.MaxAge = time.Hour - time.Second },
			"MaxAge 59m59s must not be below MinDeadAge 1h0m0s",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := model.Policy{}.WithDefaults()
			tc.change(&p)
			err := p.Validate()
			if tc.want == "" {
				if err != nil {
					t.Errorf("got %v, want no error", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestPolicyWithDefaultsKeepsWhatIsSet(t *testing.T) {
	t.Parallel()
	set := model.Policy{
		BaseDelay: time.Minute, Multiplier: 3, MaxDelay: time.Hour, Jitter: model.None, MaxAttempts: 4,
		MinDeadAge: time.Minute, MaxAge: time.Hour,
	}
	if got := set.WithDefaults(); got != set {
		t.Errorf("got %+v, want %+v", got, set)
	}
	want := model.Policy{
		BaseDelay: time.Second, Multiplier: 2, MaxDelay: 5 * time.Minute, Jitter: 0.2, MaxAttempts: 10,
		MinDeadAge: time.Hour,
	}
	if got := (model.Policy{}).WithDefaults(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestE4_PolicyGivesUpByAttemptsAndAge(t *testing.T) {
	t.Parallel()
	p := model.Policy{MaxAttempts: 3, MinDeadAge: time.Minute, MaxAge: time.Hour}
	unlimited := model.Policy{MaxAttempts: 3, MinDeadAge: time.Minute}
	plain := model.Policy{MaxAttempts: 3, MinDeadAge: model.None}
	for _, tc := range []struct {
		name     string
		policy   model.Policy
		attempts int
		age      time.Duration
		want     bool
	}{
		{"fresh", p, 0, 0, false},
		{"one left", p, 2, time.Hour - 1, false},
		{"out of attempts, young", p, 3, time.Minute - 1, false},
		{"out of attempts, old enough", p, 3, time.Minute, true},
		{"too old", p, 0, time.Hour, true},
		{"no limit of age", unlimited, 2, 1 << 62, false},
		{"attempts alone", plain, 3, 0, true},
		{"attempts alone, one left", plain, 2, 1 << 62, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if got := tc.policy.GivesUp(tc.attempts, tc.age); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	if p := p.WithDefaults(); p.LongestDelay(0.5) != p.MaxDelay || p.LongestDelay(0) != p.MaxDelay*4/5 {
		t.Errorf("longest delay %v to %v, want %v less its jitter", p.LongestDelay(0), p.LongestDelay(0.5), p.MaxDelay)
	}
}
