package breaker

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/transmsg/transmsg/model"
)

const (
	// maxProbeWait and maxRouteWait cap the time between two probes of a refused target, and
	// of a route without confirms.
	maxProbeWait = time.Minute
	maxRouteWait = 30 * time.Second
	// minWait is the least time that a message waits for a probe: no hot loop.
	minWait = 100 * time.Millisecond
	// maxBroken bounds the memory of broken targets. Beyond it messages are simply sent.
	maxBroken = 1000
)

// Config configures a [Breaker].
type Config struct {
	// Delay is the wait for the first probe after a failure. It doubles with each probe that
	// fails, up to a minute (half of one for a route).
	Delay time.Duration
	// Forget is how long a target is remembered for which no message comes.
	Forget time.Duration
	// Changed is told of targets that are proven broken, and of their end. Never nil. It is
	// called without locks held, possibly several at a time.
	Changed func(Change)
}

// Change is news of one target.
type Change struct {
	Target Target
	Open   bool
	// Passed says of an end that a message was taken; else no message has come for long.
	Passed bool
	Cause  model.Outcome // of the failure, while Open
}

// broken is a target that failed, or is suspected.
type broken struct {
	cause model.Outcome // of the last failure
	// proven: the broker refused one message that was alone, or confirmed none. Until then
	// the target is only suspected, because a channel closed under several sends.
	proven bool
	fails  int       // proofs in a row
	next   time.Time // of the next probe
	probe  bool      // one is out
	seen   time.Time // when a message for it last came
}

// Breaker decides which messages wait; see the package comment. Make it with [New]. Safe for
// concurrent use.
//
// Which message is the probe: the next that comes. Whoever sends rows in the order of their
// attempts lets the charge of probes go round them: none dies before as many probes as rows
// times attempts. A row alone with its broken exchange is charged by each of its retries and
// dies as it would without a breaker.
type Breaker struct {
	cfg Config

	mu     sync.Mutex
	broken map[Target]*broken
	n      atomic.Int32 // len(broken): without any nothing is locked
}

// New returns a Breaker that knows of nothing broken.
func New(cfg Config) *Breaker { return &Breaker{cfg: cfg, broken: map[Target]*broken{}} }

// Waits reports whether a message would wait now, and why. It takes no probe.
func (b *Breaker) Waits(exchange, key string) (why model.Outcome, waits bool) {
	_, why, waits = b.look(exchange, key, false)
	return why, waits
}

// Admit decides about a message that is about to be sent: it waits, with an outcome that says
// why and how long; or it is the probe of a target; or, with neither, it is sent as any other.
// The outcome of a probe must be told (see Outcome).
func (b *Breaker) Admit(exchange, key string) (probe *Target, why model.Outcome, waits bool) {
	return b.look(exchange, key, true)
}

func (b *Breaker) look(exchange, key string, take bool) (probe *Target, why model.Outcome, waits bool) {
	if b.n.Load() == 0 {
		return nil, model.Outcome{}, false
	}
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, t := range targets(exchange, key) {
		x := b.broken[t]
		if x == nil {
			continue
		}
		x.seen = now
		switch {
		case now.Before(x.next):
			return nil, x.waiting(t, x.next.Sub(now)), true
		case x.probe:
			return nil, x.waiting(t, b.cfg.Delay), true
		}
		x.probe = take
		return &t, model.Outcome{}, false
	}
	return nil, model.Outcome{}, false
}

// waiting is the outcome of a message that waits.
func (x *broken) waiting(t Target, wait time.Duration) model.Outcome {
	what := "its exchange"
	if t.Kind == Route {
		what = "its route"
	}
	return model.Outcome{
		Kind: model.Deferred, Code: x.cause.Code, Wait: max(wait, minWait),
		Text: model.CleanText("waits for a probe of " + what + ": " + x.cause.Text),
	}
}

// Outcome learns from what became of a send, with the probe that it was, if any. It does not
// block.
func (b *Breaker) Outcome(probe *Target, exchange, key string, o model.Outcome) {
	guilty, blamed := blame(exchange, key, o)
	if !blamed && b.n.Load() == 0 {
		return
	}
	switch {
	case blamed && (o.Kind == model.Refused || guilty.Kind == Route):
		b.failed(guilty, probe, o)
		if probe != nil && guilty.Kind == Topic && probe.Kind == Exchange {
			b.passed(*probe) // the broker looks at the topic after the exchange
			return
		}
	case blamed:
		b.suspected(guilty, o)
	}
	switch {
	case answered(o.Kind):
		b.passed(Target{Kind: Route, Exchange: exchange, Key: key})
		if probe != nil {
			b.passed(*probe)
		}
	case probe != nil:
		b.release(*probe) // whatever it says about its target is noted
	}
}

func answered(k model.OutcomeKind) bool {
	return k == model.Acked || k == model.Returned || k == model.Nacked
}

// Silent says that a route is not confirmed although its sends are not overdue yet, and
// returns the outcome of a message that waits for it.
func (b *Breaker) Silent(exchange, key string, why model.Outcome) model.Outcome {
	t := Target{Kind: Route, Exchange: exchange, Key: key}
	b.failed(t, nil, why)
	return (&broken{cause: why}).waiting(t, b.cfg.Delay)
}

// LateAnswer says that the broker has answered a send that had timed out.
func (b *Breaker) LateAnswer(exchange, key string) {
	if b.n.Load() > 0 {
		b.passed(Target{Kind: Route, Exchange: exchange, Key: key})
	}
}

// Retry makes every target due for a probe: the connection or the login is a new one.
func (b *Breaker) Retry() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range b.broken {
		x.next = time.Time{}
	}
}

// Broken returns how many targets of a kind are proven broken.
func (b *Breaker) Broken(kind Kind) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for t, x := range b.broken {
		if t.Kind == kind && x.proven {
			n++
		}
	}
	return n
}

// Open returns the targets that are proven broken, for whoever begins to listen.
func (b *Breaker) Open() []Change {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []Change
	for t, x := range b.broken {
		if x.proven {
			all = append(all, Change{Target: t, Open: true, Cause: x.cause})
		}
	}
	return all
}

// release gives up a probe that told nothing.
func (b *Breaker) release(probe Target) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x := b.broken[probe]; x != nil {
		x.probe = false
	}
}

// failed notes a proof.
func (b *Breaker) failed(t Target, probe *Target, o model.Outcome) {
	b.mu.Lock()
	x := b.entry(t)
	if x == nil {
		b.mu.Unlock()
		return
	}
	first := !x.proven
	x.proven, x.cause = true, o
	mine := probe != nil && *probe == t
	// Sends that were under way before the first proof prove nothing more.
	if x.fails == 0 || mine {
		x.fails++
		x.next = time.Now().Add(b.delay(t, x.fails))
	}
	if mine {
		x.probe = false
	}
	b.mu.Unlock()
	if first {
		b.cfg.Changed(Change{Target: t, Open: true, Cause: o})
	}
}

// delay is the wait after so many failures in a row.
func (b *Breaker) delay(t Target, fails int) time.Duration {
	most := maxProbeWait
	if t.Kind == Route {
		most = maxRouteWait
	}
	p := model.Policy{BaseDelay: b.cfg.Delay, MaxDelay: max(most, b.cfg.Delay)}.WithDefaults()
	return min(p.Delay(fails, rand.Float64()), most)
}

// suspected notes a suspicion: the next message is a probe, at once.
func (b *Breaker) suspected(t Target, o model.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x := b.entry(t); x != nil && !x.proven {
		x.cause = model.Outcome{Code: model.CauseCode(o.Text[:3]), Text: o.Text} // not the suspect's code: see blame
	}
}

// entry returns the state of t, new or not; nil where there are too many.
func (b *Breaker) entry(t Target) *broken {
	if x := b.broken[t]; x != nil {
		return x
	}
	if len(b.broken) >= maxBroken {
		return nil
	}
	x := &broken{seen: time.Now()}
	b.broken[t] = x
	b.n.Store(int32(len(b.broken))) //nolint:gosec // at most maxBroken
	return x
}

// Forget drops the targets for which no message has come for long. Call it now and then.
func (b *Breaker) Forget() {
	var proven []Target
	b.mu.Lock()
	for t, x := range b.broken {
		if x.probe || time.Since(x.seen) <= b.cfg.Forget {
			continue
		}
		delete(b.broken, t)
		if x.proven {
			proven = append(proven, t)
		}
	}
	b.n.Store(int32(len(b.broken))) //nolint:gosec // at most maxBroken
	b.mu.Unlock()
	for _, t := range proven {
		b.cfg.Changed(Change{Target: t})
	}
}

// passed ends a target's being broken.
func (b *Breaker) passed(t Target) {
	b.mu.Lock()
	x := b.broken[t]
	delete(b.broken, t)
	b.n.Store(int32(len(b.broken))) //nolint:gosec // at most maxBroken
	b.mu.Unlock()
	if x != nil && x.proven {
		b.cfg.Changed(Change{Target: t, Passed: true})
	}
}
