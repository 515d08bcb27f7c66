package compensator_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/transmsg/transmsg/compensator"
	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/model"
)

// fakeBroker refuses what is revoked as a real one does: a send among others closes the
// channel and is a suspect, one alone is pinned.
type fakeBroker struct {
	mu       sync.Mutex
	revoked  map[string]bool // exchanges, and "exchange/key" for topics
	channels int             // closed
}

func (b *fakeBroker) set(name string, revoked bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.revoked[name] = revoked
}

func (b *fakeBroker) closed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.channels
}

func (b *fakeBroker) answer(s confirms.Send) model.Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := s.Message
	var text string
	right := model.ExchangeRight
	switch {
	case b.revoked[m.Exchange]:
		text = fmt.Sprintf("403 ACCESS_REFUSED - write access to exchange '%s' in vhost '/' refused for user 'u'",
			m.Exchange)
	case b.revoked[m.Exchange+"/"+m.RoutingKey]:
		right = model.TopicRight
		text = fmt.Sprintf("403 ACCESS_REFUSED - write access to topic '%s' in exchange '%s' in vhost '/' refused "+
			"for user 'u'", m.RoutingKey, m.Exchange)
	default:
		return model.Outcome{Kind: model.Acked}
	}
	b.channels++
	o := model.Outcome{Kind: model.Unknown, Code: model.CodeSuspect, Text: text, Reply: 403, Refused: right}
	if s.Alone {
		o.Kind, o.Code = model.Refused, model.CodeAccessRefused
	}
	return o
}

func to(exchange, key string) func(*model.TransMessage) {
	return func(r *model.TransMessage) { r.Exchange, r.RoutingKey = exchange, key }
}

// C48: a revoked exchange with many rows costs probes alone: no row is charged again
// before many others, none dies, the cause is in every row; its neighbours do not notice,
// and all is delivered soon after the right is given back.
func TestC48_RevokedExchangeWaitsForProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender, alerts := newStore(), newSender(), &collector{}
		broker := &fakeBroker{revoked: map[string]bool{"gone": true}}
		sender.script, sender.delay = broker.answer, time.Millisecond
		ids := store.put(t, 1000, "orders", to("gone", "k"))
		good := store.put(t, 500, "orders", nil)
		var opened []string
		r := start(t, compensator.Config{
			Store: store, Sender: sender, Alerter: alerts, BatchRows: 100,
			Policy: model.Policy{MaxAttempts: 3, MinDeadAge: model.None},
			Observers: []compensator.Observer{{Breaker: func(exchange, topic string, open bool) {
				opened = append(opened, fmt.Sprint(exchange, " ", topic, " ", open))
			}}},
		})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		once(t, sender, good)
		early := broker.closed() // two batches are under way before the first answer
		if early > 2*100+10 {
			t.Errorf("%d sends refused at first, want those of two batches", early)
		}
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if probes := broker.closed() - early; probes < 25 || probes > 50 {
			t.Errorf("%d probes in half an hour, want about one a minute", probes)
		}
		charged := 0
		for _, id := range ids {
			row, _ := store.row(id)
			if row.Status != model.Ready || row.Attempts > 1 || row.LastCode != model.CodeAccessRefused {
				t.Fatalf("row %+v, want it READY with 403 and at most one attempt", row)
			}
			charged += row.Attempts
		}
		if charged < 25 || charged > 50 {
			t.Errorf("%d attempts in all, want those of the probes", charged)
		}
		broker.set("gone", false)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if n := store.left(); n != 0 {
			t.Errorf("%d rows left three minutes after the right was given back, want 0", n)
		}
		r.drained(t)
		if got := strings.Join(opened, ", "); got != "gone  true, gone  false" {
			t.Errorf("breaker was told %q, want one opening and one closing", got)
		}
		told := alerts.got()
		if len(told) != 1 || told[0].Kind != model.AlertExchange || told[0].Exchange != "gone" ||
			told[0].Command != "transmsg messages list --status READY --exchange gone --code 403" {
			t.Errorf("alerts %+v, want one of the broken exchange", told)
		}
	})
}

// A row alone with its broken exchange is charged by its own retries and dies as usual.
func TestBreakerLetsALoneRowDie(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		broker := &fakeBroker{revoked: map[string]bool{"gone": true}}
		sender.script = broker.answer
		id := store.put(t, 1, "orders", to("gone", "k"))[0]
		r := start(t, compensator.Config{Store: store, Sender: sender, Policy: model.Policy{MinDeadAge: model.None}})
		time.Sleep(time.Hour)
		r.drained(t)
		if row, _ := store.row(id); row.Status != model.Dead || row.Attempts != model.DefaultMaxAttempts {
			t.Errorf("row %+v, want DEAD after %d attempts", row, model.DefaultMaxAttempts)
		}
	})
}

// A refused topic holds up its own key alone.
func TestBreakerOfATopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		broker := &fakeBroker{revoked: map[string]bool{"ex/bad": true}}
		sender.script, sender.delay = broker.answer, time.Millisecond
		bad := store.put(t, 300, "orders", to("ex", "bad"))
		good := store.put(t, 300, "orders", to("ex", "good"))
		r := start(t, compensator.Config{Store: store, Sender: sender, BatchRows: 50})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		once(t, sender, good)
		before := broker.closed()
		later := store.put(t, 300, "orders", to("ex", "good"))
		time.Sleep(time.Minute)
		synctest.Wait()
		once(t, sender, later)
		if n := broker.closed() - before; n > 10 {
			t.Errorf("%d refused sends of the topic in a minute, want probes alone", n)
		}
		broker.set("ex/bad", false)
		time.Sleep(3 * time.Minute)
		r.drained(t)
		if store.left() != 0 || sender.times(bad[0]) == 0 {
			t.Errorf("%d rows left, want 0", store.left())
		}
	})
}

// Whoever was only under suspicion is cleared by one probe.
func TestBreakerClearsTheInnocent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender, alerts := newStore(), newSender(), &collector{}
		first := true
		sender.script = func(confirms.Send) model.Outcome {
			if first {
				first = false
				return model.Outcome{
					Kind: model.Unknown, Code: model.CodeSuspect,
					Text:  "403 ACCESS_REFUSED - access to exchange 'another' in vhost '/' refused",
					Reply: 403, Refused: model.ExchangeRight,
				}
			}
			return model.Outcome{Kind: model.Acked}
		}
		store.put(t, 1, "orders", nil)
		r := start(t, compensator.Config{Store: store, Sender: sender, Alerter: alerts})
		synctest.Wait()
		ids := store.put(t, 200, "orders", nil)
		time.Sleep(5 * time.Second)
		r.drained(t)
		once(t, sender, ids)
		if store.left() != 0 || len(alerts.got()) != 0 {
			t.Errorf("%d rows left, %d alerts; want none", store.left(), len(alerts.got()))
		}
		alone := 0
		for _, id := range ids {
			if sender.alone[id] {
				alone++
			}
		}
		if alone != 1 {
			t.Errorf("%d of the rows went alone, want the probe", alone)
		}
	})
}

// A run that could not hand its probe to the sender, or lost the broker, loses no probe.
func TestBreakerLosesNoProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		broker := &fakeBroker{revoked: map[string]bool{"gone": true}}
		var panics atomic.Bool
		sender.script = broker.answer
		ids := store.put(t, 20, "orders", to("gone", "k"))
		r := start(t, compensator.Config{
			Store: store, Sender: &panickingSender{fakeSender: sender, panics: &panics},
			Policy: model.Policy{MaxAttempts: 1000},
		})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		sender.setDown(true)
		time.Sleep(2 * time.Minute)
		sender.setDown(false)
		time.Sleep(2 * time.Minute)
		synctest.Wait() // the run is idle: what it reads next it sees changed
		panics.Store(true)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if panics.Load() {
			t.Error("no probe was sent in two minutes")
		}
		broker.set("gone", false)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := store.left(); n > 1 {
			t.Errorf("%d of %d rows left, want at most the one whose outcome never came", n, len(ids))
		}
		_ = r.stop() // not drained: that row
	})
}

// Rows that only wait do not use up the rate of the others.
func TestBreakerSparesTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		broker := &fakeBroker{revoked: map[string]bool{"gone": true}}
		sender.script, sender.delay = broker.answer, time.Millisecond
		store.put(t, 300, "orders", to("gone", "k"))
		r := start(t, compensator.Config{Store: store, Sender: sender, Rate: 20, BatchRows: 50})
		for range 12 {
			time.Sleep(5 * time.Second)
			good := store.put(t, 5, "orders", nil)
			time.Sleep(3 * time.Second)
			synctest.Wait()
			for _, id := range good {
				if sender.times(id) != 1 {
					t.Fatalf("a good row was sent %d times within 3 s, want once", sender.times(id))
				}
			}
		}
		r.drained(t)
	})
}

// A probe that tells nothing about its exchange is followed by the next one soon.
func TestBreakerTriesAgainAfterAnInconclusiveProbe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		broker := &fakeBroker{revoked: map[string]bool{"gone": true}}
		var probed atomic.Bool
		sender.script = func(s confirms.Send) model.Outcome {
			if s.Alone {
				if !probed.Swap(true) {
					broker.set("gone", false)
					return model.Outcome{Kind: model.Unknown, Code: model.CodeTimeout}
				}
			}
			return broker.answer(s)
		}
		store.put(t, 50, "orders", to("gone", "k"))
		r := start(t, compensator.Config{Store: store, Sender: sender})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := store.left(); n != 0 {
			t.Errorf("%d rows left 10 s after a probe without an answer, want 0", n)
		}
		r.drained(t)
	})
}

// A broken exchange for which no row comes any more is forgotten, and not while one waits
// for its next try: nobody is to look for what is not there, or be told of it twice.
func TestBreakerForgetsWhatNobodyNeeds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store, sender := newStore(), newSender()
		broker := &fakeBroker{revoked: map[string]bool{"gone": true}}
		sender.script = broker.answer
		id := store.put(t, 1, "orders", to("gone", "k"))[0]
		var mu sync.Mutex
		var opened []string
		told := func() string {
			mu.Lock()
			defer mu.Unlock()
			return strings.Join(opened, ", ")
		}
		r := start(t, compensator.Config{
			Store: store, Sender: sender,
			Interval: 30 * time.Second,
			Policy: model.Policy{
				BaseDelay: time.Hour, MaxDelay: time.Hour, Jitter: 1, MaxAttempts: 6, MinDeadAge: model.None,
			},
			Observers: []compensator.Observer{{Breaker: func(exchange, _ string, open bool) {
				mu.Lock()
				defer mu.Unlock()
				opened = append(opened, fmt.Sprint(exchange, " ", open))
			}}},
		})
		for { // the row comes seldom, and comes
			time.Sleep(time.Minute)
			synctest.Wait()
			if row, _ := store.row(id); row.Status == model.Dead {
				break
			}
			if got := told(); got != "" && got != "gone true" {
				t.Fatalf("breaker was told %q while a row waited, want one opening", got)
			}
		}
		time.Sleep(4 * time.Hour)
		synctest.Wait()
		if got := told(); got != "gone true, gone false" {
			t.Errorf("breaker was told %q after the row's end, want one closing more", got)
		}
		r.drained(t)
	})
}
