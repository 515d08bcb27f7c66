package compensator

import (
	"context"
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/transmsg/transmsg/model"
)

// Where a slow start begins, as a share of the limit, and in messages per second where
// there is no limit: 5,000 rows must be delivered within seconds of an outage's end. It
// ends there at ten times as much, after which there is no limit again.
const (
	slowShare  = 0.1
	slowFloor  = 1.0
	slowBegin  = 5000.0
	slowTarget = 50_000.0
)

// pace bounds how many messages are sent per second. Tokens are taken before rows are
// claimed, so that no row waits for one while its lease runs. One goroutine at a time
// uses it.
type pace struct {
	limit   float64       // messages per second; 0 = none
	rows    int           // the most of one claim
	limiter *rate.Limiter // of the limit in force; nil: none
	chunk   int           // waited for, so that claims do not shrink to single rows
	spare   int           // tokens taken for the last claim and not used

	over  time.Duration // length of a slow start; 0 = none
	since time.Time     // of the slow start going on; zero: none
}

// newPace allows bursts of a tenth of a second: in any second at most 1.1 times perSecond
// messages are sent.
func newPace(perSecond float64, rows int, slowStart time.Duration) *pace {
	if perSecond == model.None || math.IsInf(perSecond, 1) {
		perSecond = 0
	}
	p := &pace{limit: perSecond, rows: rows, over: slowStart}
	p.set(perSecond)
	return p
}

// set puts a limit in force; 0 is none.
func (p *pace) set(perSecond float64) {
	if perSecond == 0 {
		p.limiter = nil
		return
	}
	burst := int(min(max(perSecond/10, 1), float64(p.rows)))
	p.chunk = (burst + 1) / 2
	if p.limiter == nil {
		p.limiter = rate.NewLimiter(rate.Limit(perSecond), burst)
		return
	}
	p.limiter.SetLimit(rate.Limit(perSecond))
	p.limiter.SetBurst(burst)
}

// slowStart begins to climb from a tenth of the limit (or from 5,000 a second).
func (p *pace) slowStart() {
	if p.over > 0 {
		p.since = time.Now()
	}
}

// climb puts the limit of this moment in force.
func (p *pace) climb() {
	if p.since.IsZero() {
		return
	}
	done := float64(time.Since(p.since)) / float64(p.over)
	if done >= 1 {
		p.since = time.Time{}
		p.set(p.limit)
		return
	}
	from, to := slowBegin, slowTarget
	if p.limit > 0 {
		from, to = min(max(slowShare*p.limit, slowFloor), p.limit), p.limit
	}
	p.set(from + (to-from)*done)
}

// take waits until some tokens are in hand and returns how many it took: the most rows
// that may be claimed now.
func (p *pace) take(ctx context.Context) (int, error) {
	p.climb()
	if p.limiter == nil {
		return p.rows, nil
	}
	if n := p.spare; n > 0 {
		p.spare = 0
		return min(n, p.rows), nil
	}
	if err := p.limiter.WaitN(ctx, p.chunk); err != nil {
		return 0, err
	}
	n := p.chunk
	for more := int(p.limiter.Tokens()); more > 0; more /= 2 {
		if p.limiter.AllowN(time.Now(), more) {
			return n + more, nil
		}
	}
	return n, nil
}

// unused gives back the tokens of the rows of the last claim that were not sent: rows of
// a broken exchange must not use up the rate of the others.
func (p *pace) unused(rows int) { p.spare = rows }

// maxSpan is longer than any lease, and fits a duration.
const maxSpan = 100 * 365 * 24 * time.Hour

// span is how long the largest claim takes to send at the limit, at most maxSpan.
func (p *pace) span() time.Duration {
	if p.limiter == nil {
		return 0
	}
	seconds := float64(p.limiter.Burst()) / float64(p.limiter.Limit())
	return time.Duration(min(seconds, maxSpan.Seconds()) * float64(time.Second))
}
