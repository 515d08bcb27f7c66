package confirms_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/faultproxy"
	"github.com/transmsg/transmsg/model"
)

// proxied returns a config that reaches the shared broker through a proxy, and a client
// that does not; exchange "ex" leads to queue "q" by key "k".
func proxied(t *testing.T) (confirms.Config, *faultproxy.Proxy, *amqptest.Client) {
	t.Helper()
	url := amqptest.VHost(t)
	c := amqptest.Connect(t, url)
	queueOn(t, c, "ex", "q", "k")
	cfg := configFor(t, url)
	p, err := faultproxy.New(cfg.Addrs[0])
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	cfg.Addrs = []string{p.Addr()}
	return cfg, p, c
}

// known sums the outcomes that the loss of a connection can have: none about a message.
func known(tally map[string]int) int {
	return tally["acked"] + tally["unknown closed"] + tally["unknown write"] + tally["deferred not-sent"]
}

// burst sends until stop is closed, and counts nothing but outcomes.
func burst(t *testing.T, s *confirms.Sender, r *results, stop <-chan struct{}) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			m := message(t, "ex", "k")
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
			err := s.Reserve(ctx, 1, int64(len(m.Body)))
			cancel()
			if err == nil {
				r.sendReserved(s, m)
			}
		}
	}()
	return done
}

// TestC02 holds the handler of the first outcome longer than the 5 s after which the
// client library throws a notification away that nobody takes.
func TestC02_NoReturnIsDroppedWhileAHandlerIsSlow(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	queueOn(t, amqptest.Connect(t, url), "ex", "q", "k")
	s := open(t, configFor(t, url))
	r := newResults(t)
	slow := &slowHandler{handler: handler{r: r}, hold: make(chan struct{})}
	m := message(t, "ex", "nope")
	slow.id = m.ID
	r.sendReserved(s, m, func(p *confirms.Send) { p.Handler = slow })
	const n = 900
	for range n {
		r.send(s, message(t, "ex", "nope"))
	}
	<-time.After(6 * time.Second) // the fault itself
	close(slow.hold)
	r.wait()
	r.wantAll(map[string]int{"returned 312": n + 1})
}

type slowHandler struct {
	handler
	hold chan struct{}
}

func (h *slowHandler) Done(o model.Outcome) {
	<-h.hold
	h.handler.Done(o)
}

func TestC04_C29_CutConnectionsAreUnknownAndResume(t *testing.T) {
	t.Parallel()
	cfg, p, c := proxied(t)
	s := open(t, cfg)
	r := newResults(t)
	stop := make(chan struct{})
	done := burst(t, s, r, stop)
	const cuts = 20
	for i := range cuts {
		acked := s.Stats().Acked
		eventually(t, "acks on a new connection", func() bool { return s.Stats().Acked > acked+20 })
		if n := p.Cut(i%2 == 0); n != 1 {
			t.Errorf("%d connections before cut %d, want exactly 1", n, i)
		}
		generation := uint64(i + 2)
		eventually(t, "a new connection", func() bool { return s.Stats().Generation == generation && s.Ready() })
	}
	close(stop)
	<-done
	r.wait()
	tally := r.tally()
	if known(tally) != r.sent || tally["unknown closed"]+tally["unknown write"] == 0 {
		t.Errorf("outcomes of %d sends: %v; want acked, unknown and deferred alone", r.sent, tally)
	}
	queued := ids(t, c, "q")
	for id, o := range r.byID {
		if o.Kind == model.Acked && queued[id] != 1 {
			t.Fatalf("acked message is %d times in the queue", queued[id])
		}
		if o.Kind == model.Deferred && queued[id] != 0 {
			t.Fatal("a deferred message is in the queue")
		}
	}
}

func TestC05_OldConfirmsNeverSettleNewSends(t *testing.T) {
	t.Parallel()
	cfg, p, _ := proxied(t)
	s := open(t, cfg)
	old, fresh := newResults(t), newResults(t)
	p.SwallowAcks(true)
	for range 10 {
		old.send(s, message(t, "ex", "k"))
	}
	eventually(t, "acks swallowed", func() bool { return p.Stats().SwallowedAcks > 0 && s.Stats().InFlight == 10 })
	p.SwallowAcks(false)
	p.Cut(true)
	old.wait()
	old.wantAll(map[string]int{"unknown closed": 10})
	for range 10 {
		fresh.send(s, message(t, "ex", "k"))
	}
	fresh.wait()
	fresh.wantAll(map[string]int{"acked": 10})
}

func TestC09_C30_OverdueConfirmsRetireTheChannel(t *testing.T) {
	t.Parallel()
	cfg, p, c := proxied(t)
	must(t, c.Bind("q", "ex", "k1")) // two routes, or the one would be to blame
	cfg.ConfirmTimeout = time.Second
	s := open(t, cfg)
	r := newResults(t)
	p.SwallowAcks(true)
	// Few enough to be out well within the timeout: what is sent on a third channel after it
	// costs the connection.
	const n = 200
	must(t, s.Reserve(testCtx(t), n, n*4))
	for i := range n {
		r.sendReserved(s, message(t, "ex", [...]string{"k", "k1"}[i%2]))
	}
	r.wait()
	r.wantAll(map[string]int{"unknown timeout": n})
	p.SwallowAcks(false)
	// The acks will never come: the retired channel is closed and all is as before.
	must(t, s.WaitReady(testCtx(t)))
	eventually(t, "no send tracked any more", func() bool { return s.Stats().InFlight == 0 && s.Stats().TimedOut == 0 })
	eventually(t, "a message of the same route is acked", func() bool {
		good := newResults(t)
		id := good.send(s, message(t, "ex", "k"))
		good.wait()
		return good.outcome(id).Kind == model.Acked
	})
	if r.lateAcks() != 0 {
		t.Errorf("%d late acks of swallowed ones", r.lateAcks())
	}
	if st := s.Stats(); st.Generation != 1 {
		t.Errorf("generation %d: one stuck channel must not cost the connection", st.Generation)
	}
}

func TestC09_LateAcksAreTold(t *testing.T) {
	t.Parallel()
	cfg, p, _ := proxied(t)
	cfg.ConfirmTimeout = 500 * time.Millisecond
	s := open(t, cfg)
	r := newResults(t)
	id := r.send(s, message(t, "ex", "k"))
	r.wait() // the exchange is known
	r.want(id, model.Acked, "")
	p.Delay(faultproxy.ToClient, 800*time.Millisecond)
	must(t, s.Reserve(testCtx(t), 20, 80))
	for range 10 {
		r.sendReserved(s, message(t, "ex", "k"))
		r.sendReserved(s, message(t, "ex", "nope"))
	}
	eventually(t, "timeouts shown as not ready", func() bool { return s.Stats().TimedOut > 0 && !s.Ready() })
	r.wait()
	r.wantAll(map[string]int{"acked": 1, "unknown timeout": 20})
	eventually(t, "late acks of the routed ones", func() bool { return r.lateAcks() == 10 })
	p.Delay(faultproxy.ToClient, 0)
	must(t, s.WaitReady(testCtx(t)))
	if n := r.lateAcks(); n != 10 || s.Stats().LateAcks != 10 {
		t.Errorf("%d late acks, want those of the 10 routed messages", n)
	}
}

func TestC45_SlowConfirmsAreWaitedFor(t *testing.T) {
	t.Parallel()
	cfg, p, c := proxied(t)
	s := open(t, cfg)
	p.Delay(faultproxy.ToClient, 3*time.Second)
	r := newResults(t)
	for range 100 {
		r.send(s, message(t, "ex", "k"))
	}
	r.wait()
	r.wantAll(map[string]int{"acked": 100})
	if got := len(ids(t, c, "q")); got != 100 || s.Stats().Generation != 1 {
		t.Errorf("%d messages in the queue in generation %d, want 100 in 1", got, s.Stats().Generation)
	}
}

func TestSilentPeerIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]faultproxy.Dir{"answers": faultproxy.ToClient, "sends": faultproxy.ToServer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, p, _ := proxied(t)
			s := open(t, cfg)
			r := newResults(t)
			r.send(s, message(t, "ex", "k"))
			r.wait()
			p.Stall(dir)
			const n = 200
			must(t, s.Reserve(testCtx(t), n, n*4))
			for range n {
				r.sendReserved(s, message(t, "ex", "k"))
			}
			r.wait()
			r.wantAll(map[string]int{"acked": 1, "unknown closed": n})
			if dir == faultproxy.ToClient { // else heartbeats are read, and the probe decides
				eventually(t, "the watchdog's word", func() bool {
					err := s.LastError()
					return err != nil && strings.Contains(err.Error(), "nothing was read")
				})
			}
			p.Resume()
			must(t, s.WaitReady(testCtx(t)))
		})
	}
}

// TestStuckWriteBlocksNobody fills the socket of a peer that does not read.
func TestStuckWriteBlocksNobody(t *testing.T) {
	t.Parallel()
	cfg, p, _ := proxied(t)
	s := open(t, cfg)
	r := newResults(t)
	r.send(s, message(t, "ex", "k"))
	r.wait()
	p.Stall(faultproxy.ToServer)
	body := make([]byte, 512<<10)
	const n = 100
	must(t, s.Reserve(testCtx(t), n, n*int64(len(body))))
	for range n {
		m := message(t, "ex", "k")
		m.Body = body
		r.sendReserved(s, m)
	}
	r.wait()
	tally := r.tally()
	if known(tally) != n+1 || tally["acked"] != 1 || tally["deferred not-sent"] == 0 {
		t.Errorf("outcomes: %v; want those on the wire unknown and those waiting deferred", tally)
	}
	p.Resume()
	must(t, s.WaitReady(testCtx(t)))
}

func TestC11_CloseInABurstEndsByItsContext(t *testing.T) {
	t.Parallel()
	for name, stall := range map[string]bool{"healthy": false, "silent peer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, p, _ := proxied(t)
			s := open(t, cfg)
			r := newResults(t)
			stop := make(chan struct{})
			done := burst(t, s, r, stop)
			eventually(t, "traffic", func() bool { return s.Stats().Acked > 100 })
			if stall {
				p.Stall(faultproxy.ToClient)
				eventually(t, "sends without answer", func() bool { return s.Stats().InFlight > 100 })
			}
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			err := s.Close(ctx)
			if stall && !errors.Is(err, model.ErrNotDrained) {
				t.Errorf("close with sends open: %v", err)
			}
			if !stall && err != nil && !errors.Is(err, model.ErrNotDrained) {
				t.Errorf("close: %v", err)
			}
			close(stop)
			<-done
			r.wait()
			tally := r.tally()
			if known(tally) != r.sent {
				t.Errorf("outcomes of %d sends: %v", r.sent, tally)
			}
			p.Resume()
		})
	}
}

func TestC44_StartsWithTheBrokerDown(t *testing.T) {
	t.Parallel()
	cfg, p, _ := proxied(t)
	p.Refuse(true)
	s := start(t, cfg)
	eventually(t, "a failed dial", func() bool { return p.Stats().Refused > 2 && s.LastError() != nil })
	if s.Ready() || s.TryReserve(1, 1) {
		t.Error("ready without a broker")
	}
	r := newResults(t)
	id := r.sendReserved(s, message(t, "ex", "k"))
	r.wait()
	r.want(id, model.Deferred, model.CodeNotSent)
	p.Refuse(false)
	must(t, s.WaitReady(testCtx(t)))
	if err := s.LastError(); err != nil {
		t.Errorf("last error while connected: %v", err)
	}
	id = r.send(s, message(t, "ex", "k"))
	r.wait()
	r.want(id, model.Acked, "")
}

func TestSecondAddressIsUsed(t *testing.T) {
	t.Parallel()
	url := amqptest.VHost(t)
	cfg := configFor(t, url)
	alive := cfg.Addrs[0]
	p, err := faultproxy.New(alive)
	must(t, err)
	t.Cleanup(func() { must(t, p.Close()) })
	p.Refuse(true)
	cfg.Addrs = []string{p.Addr(), alive}
	s := open(t, cfg)
	if got := s.Stats().Addr; got != alive {
		t.Errorf("connected to %s, want %s", got, alive)
	}
}
