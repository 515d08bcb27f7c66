package compensator

import (
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/transmsg/transmsg/model"
)

const (
	// maxProbeWait caps the time between two probes of a broken exchange.
	maxProbeWait = time.Minute
	// minWait is the least time that a row waits for a probe: no hot loop.
	minWait = 100 * time.Millisecond
	// maxBroken bounds the memory of broken targets. Beyond it rows are simply sent.
	maxBroken = 1000
)

// target is what the broker refuses: a whole exchange, or one topic of it.
type target struct {
	exchange string
	topic    bool // key alone is refused, by a topic permission
	key      string
}

// broken is a target that was refused, or is suspected.
type broken struct {
	cause model.Outcome // of the last refusal
	// proven: the broker refused one message that was alone. Until then the target is
	// only suspected, because a channel closed under several sends.
	proven bool
	fails  int       // proofs in a row
	next   time.Time // of the next probe
	taken  time.Time // until then a probe is out
	seen   time.Time // when a row for it last came
}

// breaker keeps rows of a broken exchange from being sent: a send that the broker
// refuses (403, or a 404 that was not foreseen) closes the channel under its neighbours,
// and charges a row for what is not its fault. While a target is broken its rows are
// handed back with a delay, uncharged, but one at a time, the probe, which goes alone on
// the quarantine channel and is charged. A probe that the exchange takes ends it; one
// that is refused doubles the wait for the next, from the policy's base delay to a minute.
//
// Which row is the probe: the least charged of its batch, since a batch is sent in that
// order (see leastCharged) and all rows come due together for a probe. Attempts thus go
// round the rows of a batch: none dies before as many probes as rows times attempts. A
// row alone with its broken exchange is charged by each of its retries and dies as it
// would without a breaker.
//
// It lives in one process: each replica finds out by itself. A target for which no row
// comes any more, since they were edited or discarded or another replica sends them, is
// forgotten after longer than any row waits.
type breaker struct {
	policy model.Policy
	lease  time.Duration // after it a probe without an outcome is given up
	opened func(target, model.Outcome)
	closed func(t target, passed bool)

	mu     sync.Mutex
	broken map[target]*broken
}

// verdict is what to do with a row.
type verdict struct {
	probe *target // send it alone and tell the breaker
	wait  time.Duration
	why   model.Outcome // of the wait
}

// admit decides about a row that is about to be sent.
func (b *breaker) admit(exchange, key string) verdict {
	now := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.broken) == 0 {
		return verdict{}
	}
	for _, t := range [...]target{{exchange: exchange}, {exchange: exchange, topic: true, key: key}} {
		x := b.broken[t]
		if x == nil {
			continue
		}
		x.seen = now
		switch {
		case now.Before(x.next):
			return verdict{wait: max(x.next.Sub(now), minWait), why: x.waiting()}
		case now.Before(x.taken):
			return verdict{wait: max(b.policy.BaseDelay, minWait), why: x.waiting()}
		}
		x.taken = now.Add(b.lease)
		return verdict{probe: &t}
	}
	return verdict{}
}

// waiting is the cause of a row that waits.
func (x *broken) waiting() model.Outcome {
	return model.Outcome{
		Kind: model.Deferred, Code: x.cause.Code,
		Text: model.CleanText("waits for a probe of its exchange: " + x.cause.Text),
	}
}

// release gives up a probe that was not sent.
func (b *breaker) release(probe *target) {
	if probe == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if x := b.broken[*probe]; x != nil {
		x.taken = time.Time{}
	}
}

// outcome learns from what became of a send. It does not block.
func (b *breaker) outcome(probe *target, exchange, key string, o model.Outcome) {
	refused, blamed := blame(exchange, key, o)
	switch {
	case blamed && o.Kind == model.Refused:
		b.refused(refused, probe, o)
		if probe != nil && *probe != refused && refused.topic {
			b.passed(*probe) // the broker looks at the topic after the exchange
			return
		}
	case blamed:
		b.suspected(refused, o)
	}
	switch {
	case probe == nil:
	case o.Kind == model.Acked || o.Kind == model.Returned || o.Kind == model.Nacked:
		b.passed(*probe)
	case o.Kind != model.Refused || !blamed || *probe != refused:
		b.release(probe) // it says nothing about the target
	}
}

// blame says which target an outcome accuses, if any.
func blame(exchange, key string, o model.Outcome) (target, bool) {
	switch {
	case o.Kind == model.Refused && (o.Code == model.CodeNotFound || o.Code == model.CodeAccessRefused):
	case o.Kind == model.Unknown && o.Code == model.CodeSuspect && isExchangeCause(o.Text):
	default:
		return target{}, false
	}
	if !strings.Contains(o.Text, "access to topic '") {
		return target{exchange: exchange}, true
	}
	// Of the suspects that were in flight together only the named topic is guilty.
	named := strings.Contains(o.Text, "access to topic '"+key+"' in exchange")
	return target{exchange: exchange, topic: true, key: key}, named
}

// isExchangeCause reports whether a channel was closed because of an exchange or of the
// rights on it. The text begins with the reply code.
func isExchangeCause(text string) bool {
	return strings.HasPrefix(text, string(model.CodeNotFound)) ||
		strings.HasPrefix(text, string(model.CodeAccessRefused))
}

// refused notes a proof.
func (b *breaker) refused(t target, probe *target, o model.Outcome) {
	b.mu.Lock()
	x := b.entry(t)
	if x == nil {
		b.mu.Unlock()
		return
	}
	first := !x.proven
	x.proven, x.cause = true, o
	// Sends that were under way before the first proof prove nothing more.
	if x.fails == 0 || (probe != nil && *probe == t) {
		x.fails++
		x.next = time.Now().Add(min(b.policy.Delay(x.fails, rand.Float64()), maxProbeWait))
		x.taken = time.Time{}
	}
	b.mu.Unlock()
	if first {
		b.opened(t, o)
	}
}

// suspected notes a suspicion: the next row is a probe, at once.
func (b *breaker) suspected(t target, o model.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x := b.entry(t); x != nil && !x.proven {
		x.cause = model.Outcome{Code: model.Code(o.Text[:3]), Text: o.Text} // not the suspect's code: see blame
	}
}

// entry returns the state of t, new or not; nil where there are too many.
func (b *breaker) entry(t target) *broken {
	if x := b.broken[t]; x != nil {
		return x
	}
	if len(b.broken) >= maxBroken {
		return nil
	}
	x := &broken{seen: time.Now()}
	b.broken[t] = x
	return x
}

// forget drops the targets for which no row has come for longer than a row can wait: its
// delay is at most twice the policy's longest. It is called at each firing of the schedule.
func (b *breaker) forget() {
	var proven []target
	b.mu.Lock()
	for t, x := range b.broken {
		idle := time.Since(x.seen) - b.lease
		if idle <= 2*maxProbeWait || idle/2 <= b.policy.MaxDelay {
			continue
		}
		delete(b.broken, t)
		if x.proven {
			proven = append(proven, t)
		}
	}
	b.mu.Unlock()
	for _, t := range proven {
		b.closed(t, false)
	}
}

// passed ends a target's being broken.
func (b *breaker) passed(t target) {
	b.mu.Lock()
	x := b.broken[t]
	delete(b.broken, t)
	b.mu.Unlock()
	if x != nil && x.proven {
		b.closed(t, true)
	}
}
