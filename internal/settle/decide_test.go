package settle_test

import (
	"testing"
	"time"

	"github.com/transmsg/transmsg/internal/settle"
	"github.com/transmsg/transmsg/model"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	policy := model.Policy{Jitter: model.None, MaxAttempts: 3, MinDeadAge: model.None, MaxAge: time.Hour}.WithDefaults()
	fresh := settle.Facts{}
	tests := []struct {
		name  string
		o     model.Outcome
		facts settle.Facts
		want  settle.Decision
	}{
		{"acked deletes", model.Outcome{Kind: model.Acked}, fresh, settle.Decision{Delete: true}},
		{
			"acked deletes even when out of attempts",
			model.Outcome{Kind: model.Acked},
			settle.Facts{Attempts: 9, Age: 2 * time.Hour},
			settle.Decision{Delete: true},
		},
		{
			"returned counts an attempt",
			model.Outcome{Kind: model.Returned, Code: model.CodeNoRoute},
			fresh,
			settle.Decision{Status: model.Ready, Delay: time.Second, AttemptsDelta: 1, FailuresDelta: 1},
		},
		{
			"nacked backs off by failures",
			model.Outcome{Kind: model.Nacked, Code: model.CodeNack},
			settle.Facts{Attempts: 0, Failures: 3},
			settle.Decision{Status: model.Ready, Delay: 8 * time.Second, AttemptsDelta: 1, FailuresDelta: 1},
		},
		{
			"last but one attempt is READY",
			model.Outcome{Kind: model.Returned},
			settle.Facts{Attempts: 1, Failures: 1},
			settle.Decision{Status: model.Ready, Delay: 2 * time.Second, AttemptsDelta: 1, FailuresDelta: 1},
		},
		{
			"last attempt is DEAD and due for its alert",
			model.Outcome{Kind: model.Returned},
			settle.Facts{Attempts: 2, Failures: 5},
			settle.Decision{Status: model.Dead, AttemptsDelta: 1, FailuresDelta: 1},
		},
		{
			"too old is DEAD",
			model.Outcome{Kind: model.Nacked},
			settle.Facts{Age: time.Hour},
			settle.Decision{Status: model.Dead, AttemptsDelta: 1, FailuresDelta: 1},
		},
		{
			"refused backs off",
			model.Outcome{Kind: model.Refused, Code: model.CodeNotFound},
			fresh,
			settle.Decision{Status: model.Ready, Delay: time.Second, AttemptsDelta: 1, FailuresDelta: 1},
		},
		{
			"refused for good is DEAD at once",
			model.Outcome{Kind: model.Refused, Permanent: true},
			fresh,
			settle.Decision{Status: model.Dead, AttemptsDelta: 1, FailuresDelta: 1},
		},
		{
			"timeout costs no attempt",
			model.Outcome{Kind: model.Unknown, Code: model.CodeTimeout},
			settle.Facts{Attempts: 2, Failures: 1},
			settle.Decision{Status: model.Ready, Delay: 2 * time.Second, FailuresDelta: 1},
		},
		{
			"close is due shortly whatever the failures",
			model.Outcome{Kind: model.Unknown, Code: model.CodeClosed},
			settle.Facts{Attempts: 2, Failures: 1000, Age: 2 * time.Hour},
			settle.Decision{Status: model.Ready, Delay: time.Second, FailuresDelta: 1},
		},
		{
			"suspect is due shortly",
			model.Outcome{Kind: model.Unknown, Code: model.CodeSuspect},
			fresh,
			settle.Decision{Status: model.Ready, Delay: time.Second, FailuresDelta: 1},
		},
		{
			"deferred changes nothing and is due",
			model.Outcome{Kind: model.Deferred},
			settle.Facts{Attempts: 2, Failures: 7, Age: 2 * time.Hour},
			settle.Decision{Status: model.Ready},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := settle.Decide(tt.o, tt.facts, policy, 0.5); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// Whatever the counts, an outage never makes a row DEAD (C44).
func TestC44_OutageSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	policy := model.Policy{MaxAttempts: 1, MinDeadAge: model.None, MaxAge: time.Second}.WithDefaults()
	for _, code := range []model.CauseCode{model.CodeClosed, model.CodeTimeout, model.CodeWrite, model.CodeSuspect} {
		for n := range 1000 {
			d := settle.Decide(model.Outcome{Kind: model.Unknown, Code: code},
				settle.Facts{Attempts: n, Failures: n, Age: time.Duration(n) * time.Hour}, policy, 0.999)
			if d.Status != model.Ready || d.AttemptsDelta != 0 || d.Delete {
				t.Fatalf("%s after %d failures: got %+v, want READY and no attempt", code, n, d)
			}
		}
	}
}

// Attempts alone make no row DEAD that is younger than MinDeadAge: it is sent on at the longest
// delay, and its alert is owed from the moment when they are used up (E4).
func TestE4_AttemptsAloneMakeNoYoungRowDead(t *testing.T) {
	t.Parallel()
	p := model.Policy{Jitter: model.None, MaxAttempts: 3, MaxDelay: time.Minute}.WithDefaults()
	returned := model.Outcome{Kind: model.Returned, Code: model.CodeNoRoute}
	refused := model.Outcome{Kind: model.Refused, Code: model.CodeOther}
	forGood := model.Outcome{Kind: model.Refused, Code: model.CodePrecondition, Permanent: true}
	unknown := model.Outcome{Kind: model.Unknown, Code: model.CodeTimeout}
	ready := func(delay time.Duration) settle.Decision {
		return settle.Decision{Status: model.Ready, Delay: delay, AttemptsDelta: 1, FailuresDelta: 1}
	}
	exhausted, dead := ready(time.Minute), ready(0)
	exhausted.Exhausted, dead.Status = true, model.Dead
	tests := []struct {
		name     string
		o        model.Outcome
		attempts int
		age      time.Duration
		maxAge   time.Duration
		want     settle.Decision
	}{
		{"one left, old", returned, 1, 2 * time.Hour, 0, ready(2 * time.Second)},
		{"used up, first answer", returned, 2, 0, 0, exhausted},
		{"used up, refused", refused, 2, 0, 0, exhausted},
		{"used up for long, a moment too young", returned, 50, time.Hour - 1, 0, exhausted},
		{"used up and old", returned, 2, time.Hour, 0, dead},
		{"used up for long and old", returned, 50, time.Hour, 0, dead},
		{"refused for good, young", forGood, 0, 0, 0, dead},
		{"too old, attempts left", returned, 0, 2 * time.Hour, 2 * time.Hour, dead},
		{"used up, unanswered", unknown, 50, time.Hour, 0, settle.Decision{
			Status: model.Ready, Delay: time.Minute, FailuresDelta: 1,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := p
			p.MaxAge = tt.maxAge
			f := settle.Facts{Attempts: tt.attempts, Failures: tt.attempts, Age: tt.age}
			if got := settle.Decide(tt.o, f, p, 0.5); got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}
