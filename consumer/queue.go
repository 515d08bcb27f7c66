package consumer

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"github.com/transmsg/transmsg/internal/broker"
)

// queue consumes one queue: over one subscription at a time, and older ones until their last delivery has its end.
type queue struct {
	c     *Consumer
	cfg   Queue
	log   *slog.Logger
	slots *semaphore.Weighted // handler calls
	rate  *rate.Limiter
	tags  atomic.Uint64
	stats counts

	wg   sync.WaitGroup // deliveries and what watches subscriptions
	live atomic.Int64   // deliveries without an end

	mu      sync.Mutex
	changed chan struct{} // closed and made anew when something that is waited for is another
	health  QueueHealth
	paused  bool
	base    State  // what the subscription makes of the state
	missing string // why there is none
	alone   bool   // prefetch 1
	away    *gate
	copies  map[string]*gate // by target
	fresh   int              // deliveries that nobody had before, whose handler call has not ended
	kept    int              // suspects of retired subscriptions that are to be handled over those
	busy    bool             // a suspect is being handled
	ended   bool             // takes nothing any more
	steps   []StepStats      // as they were last seen; nil is unknown
}

func newQueue(c *Consumer, cfg Queue) *queue {
	q := &queue{
		c: c, cfg: cfg, log: c.log.With("queue", cfg.Name),
		slots: semaphore.NewWeighted(int64(cfg.Handlers)), rate: rate.NewLimiter(rate.Inf, 1),
		changed: make(chan struct{}), base: StateStopped, copies: make(map[string]*gate),
		away:   &gate{what: "what the handler needs", limit: cfg.MaxBackoff},
		health: QueueHealth{Queue: cfg.Name, State: StateStopped, Since: time.Now()},
	}
	if cfg.Rate > 0 {
		q.rate.SetLimit(rate.Limit(cfg.Rate))
	}
	return q
}

// next is what follows a subscription.
type next uint8

const (
	nextAlone next = iota // prefetch 1: the first message may have ended a process
	nextFull              // a message that nobody had before was at the queue's head
	nextEnd               // ctx or the session has ended
)

// serve consumes over the session until it is over or ctx ends; then everything delivered was given back or settled,
// or its time was over.
func (q *queue) serve(ctx context.Context, se *session) {
	var retired sync.WaitGroup
	defer retired.Wait()
	retired.Go(func() { q.askTargets(ctx, se) })
	mode, failed := nextAlone, 0
	for q.mayTake(ctx, se) {
		if q.anyShut() {
			mode = nextAlone
		}
		s, err := se.subscribe(q, mode == nextAlone || q.cfg.Ordered)
		if err != nil {
			se.refused(err)
			q.noteMissing(err.Error())
			failed++
			q.pause(ctx, se, jittered(backoff(failed, q.cfg.MaxBackoff)))
			continue
		}
		failed = 0
		q.noteConsuming(s.alone)
		mode = q.shift(ctx, s, &retired)
		if mode == nextEnd {
			return
		}
	}
}

// pause waits, unless the session or ctx ends.
func (q *queue) pause(ctx context.Context, se *session, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-se.over:
	case <-ctx.Done():
	}
}

// mayTake waits until messages may be taken, and reports whether they may be before the session or ctx ends.
func (q *queue) mayTake(ctx context.Context, se *session) bool {
	for {
		q.mu.Lock()
		ok, at := q.mayTakeNow(time.Now())
		changed := q.changed
		q.mu.Unlock()
		if ctx.Err() != nil || se.isOver() {
			return false
		}
		if ok {
			return true
		}
		timer := newTimer(at)
		select {
		case <-changed:
		case <-timer.C:
		case <-se.over:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// mayTakeNow needs mu. at is when to ask again, if nothing changes before.
func (q *queue) mayTakeNow(now time.Time) (ok bool, at time.Time) {
	if q.paused || q.kept > 0 || q.live.Load() >= int64(q.cfg.Prefetch) {
		return false, now.Add(recheck)
	}
	for _, g := range q.copies {
		if g.shut {
			return false, now.Add(recheck) // until a message that is held, or askTargets, finds it open
		}
	}
	switch g := q.away; {
	case g.shut && g.tester != nil:
		return false, now.Add(recheck) // the message that tries is held here
	case g.shut && now.Before(g.next):
		return false, g.next
	}
	return true, time.Time{}
}

// recheck is how often a state is looked at that tells by itself when it changes.
const recheck = time.Second

// gates needs mu.
func (q *queue) gates() []*gate {
	all := []*gate{q.away}
	for _, g := range q.copies {
		all = append(all, g)
	}
	return all
}

func (q *queue) anyShut() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, g := range q.gates() {
		if g.shut {
			return true
		}
	}
	return false
}

// mustRest needs mu. It reports whether the subscription should end: paused; what messages need is away for longer; or,
// with a prefetch of 1, its message waits for something after a call and holds up the others.
func (q *queue) mustRest(s *subscription) bool {
	if q.paused {
		return true
	}
	if s.alone {
		return s.waiter.Load() && !q.cfg.Ordered
	}
	for _, g := range q.gates() {
		if g.shut && g.tries >= shedAfter {
			return true
		}
	}
	return false
}

// tell wakes whoever waits for a change. It needs mu.
func (q *queue) tell() {
	close(q.changed)
	q.changed = make(chan struct{})
}

// stopped waits for the deliveries until by, and returns how many have no end.
func (q *queue) stopped(by time.Time) int {
	q.mu.Lock()
	q.ended = true
	q.derive()
	q.mu.Unlock()
	done := make(chan struct{})
	go func() {
		q.wg.Wait()
		close(done)
	}()
	timer := newTimer(by)
	defer timer.Stop()
	select {
	case <-done:
		return 0
	case <-timer.C:
		return int(q.live.Load())
	}
}

func newTimer(at time.Time) *time.Timer { return time.NewTimer(max(time.Until(at), 0)) }

func jittered(d time.Duration) time.Duration { return broker.Jitter(d) }
