package compensator

import (
	"context"
	"math"
	"time"

	"golang.org/x/time/rate"
)

// pace bounds how many messages are sent per second. Tokens are taken before rows are
// claimed, so that no row waits for one while its lease runs.
type pace struct {
	limiter *rate.Limiter // nil: no limit
	chunk   int           // waited for, so that claims do not shrink to single rows
	rows    int
}

// newPace allows bursts of a tenth of a second: in any second at most 1.1 times perSecond
// messages are sent.
func newPace(perSecond float64, rows int) *pace {
	if perSecond == 0 || math.IsInf(perSecond, 1) {
		return &pace{rows: rows}
	}
	burst := int(min(max(perSecond/10, 1), float64(rows)))
	return &pace{
		limiter: rate.NewLimiter(rate.Limit(perSecond), burst), chunk: (burst + 1) / 2, rows: rows,
	}
}

// take waits until some tokens are in hand and returns how many it took: the most rows
// that may be claimed now.
func (p *pace) take(ctx context.Context) (int, error) {
	if p.limiter == nil {
		return p.rows, nil
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

// span is how long the largest claim takes to send at the limit.
func (p *pace) span() time.Duration {
	if p.limiter == nil {
		return 0
	}
	return time.Duration(float64(p.limiter.Burst()) / float64(p.limiter.Limit()) * float64(time.Second))
}
