package confirms_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/transmsg/transmsg/internal/amqptest"
)

// C11: a burst far above every buffer does not stand still, and the end of the channel in
// it brings no returns that nobody sent.
func TestC11_BurstAboveEveryBuffer(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	broker := amqptest.Connect(t, url)
	must(t, broker.Exchange("ex", "direct", nil), broker.Exchange("doomed", "fanout", nil))
	cfg := configFor(t, url)
	cfg.Window = 10
	s := open(t, cfg)
	r := newResults(t)
	r.send(s, message(t, "doomed", "")) // the engine knows the exchange
	r.wait()
	must(t, broker.DeleteExchange("doomed"))
	const n = 5000
	for i := range n {
		exchange := "ex"
		if i == n/2 {
			exchange = "doomed"
		}
		r.send(s, message(t, exchange, "unbound"))
	}
	r.wait()
	tally := r.tally()
	closed := tally["unknown closed"] + tally["unknown suspect"] + tally["deferred not-sent"]
	// The channel held at most its window when it was closed; the guilty one is among those.
	if closed == 0 || closed > cfg.Window || tally["returned 312"]+closed != n+1 {
		t.Errorf("outcomes: %v, want %d returned but for the window of %d at the close", tally, n+1, cfg.Window)
	}
	must(t, s.WaitReady(testCtx(t)))
	if p := s.Stats(); p.InFlight != 0 || p.Pending != 0 {
		t.Errorf("in flight %d, pending %d after all outcomes, want none", p.InFlight, p.Pending)
	}
}

// C30: however many callers there are, and whatever happens in between, a connection never
// has more channels than its pool and the one that asks for exchanges. The broker allows 16.
func TestC30_ManyCallersShareThePool(t *testing.T) {
	n, cfg := onNode(t)
	cfg.Channels = 4
	s := open(t, cfg)
	r := newResults(t)
	most := cfg.Channels + 1
	channels := func(when string) {
		t.Helper()
		got, err := n.Channels()
		must(t, err)
		if got > most {
			t.Errorf("%s: %d channels, want at most %d", when, got, most)
		}
	}
	const callers, each = 50, 200
	publish := func(part int) {
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range each / 2 {
					r.send(s, message(t, "ex", "k"))
				}
			})
		}
		wg.Wait()
		channels(fmt.Sprintf("after part %d", part))
	}
	publish(1)
	must(t, n.CloseAllConnections()) // whatever was open is opened again
	must(t, s.WaitReady(testCtx(t)))
	publish(2)
	r.wait()
	if tally := r.tally(); known(tally) != callers*each || tally["acked"] < callers*each/2 {
		t.Errorf("outcomes of %d sends: %v", callers*each, tally)
	}
	channels("at the end")
}
