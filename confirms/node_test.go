package confirms_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

// onNode declares the usual topology on the private node.
func onNode(t *testing.T) (*amqptest.Node, confirms.Config) {
	t.Helper()
	n := privateNode(t)
	c, err := amqptest.Dial(n.URL())
	must(t, err)
	queueOn(t, c, "ex", "q", "k")
	_, err = c.Purge("q")
	must(t, err, c.Close())
	return n, configFor(t, n.URL())
}

func TestC27_AlarmClosesTheGateAndTimesNothingOut(t *testing.T) {
	n, cfg := onNode(t)
	cfg.ConfirmTimeout = time.Second
	s := open(t, cfg)
	r := newResults(t)
	r.send(s, message(t, "ex", "k"))
	r.wait()
	must(t, n.MemoryAlarm(true))
	// The broker says so at the first publish, and takes no more.
	const sent = 20
	must(t, s.Reserve(testCtx(t), sent, sent*4))
	for range sent {
		r.sendReserved(s, message(t, "ex", "k"))
	}
	eventually(t, "the gate closed", func() bool { return s.Stats().Blocked && !s.Ready() })
	late := newResults(t)
	id := late.sendReserved(s, message(t, "ex", "k"))
	late.wait()
	late.want(id, model.Deferred, model.CodeNotSent)
	if s.TryReserve(1, 1) {
		t.Error("room while blocked")
	}
	// Longer than the confirm timeout and the watchdog's limit together.
	<-time.After(7 * time.Second)
	if tally := r.tally(); tally["unknown timeout"]+tally["unknown closed"] != 0 || s.Stats().Generation != 1 {
		t.Errorf("under the alarm: %v in generation %d, want waiting", tally, s.Stats().Generation)
	}
	must(t, n.MemoryAlarm(false))
	must(t, s.WaitReady(testCtx(t)))
	r.wait()
	if tally := r.tally(); tally["acked"]+tally["deferred not-sent"] != sent+1 || s.Stats().Generation != 1 {
		t.Errorf("after the alarm: %v in generation %d", tally, s.Stats().Generation)
	}
}

func TestC27_CloseUnderAnAlarm(t *testing.T) {
	n, cfg := onNode(t)
	s := open(t, cfg)
	r := newResults(t)
	must(t, n.MemoryAlarm(true))
	defer func() { must(t, n.MemoryAlarm(false)) }()
	body := make([]byte, 500_000)
	must(t, s.Reserve(testCtx(t), 60, 60*int64(len(body))))
	for range 60 {
		m := message(t, "ex", "k")
		m.Body = body
		r.sendReserved(s, m)
	}
	eventually(t, "blocked", func() bool { return s.Stats().Blocked })
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	err := s.Close(ctx)
	if r.count() != r.sent {
		t.Errorf("%d outcomes of %d after Close (%v)", r.count(), r.sent, err)
	}
}

func TestC04_C44_BrokerStopsAndComesBack(t *testing.T) {
	n, cfg := onNode(t)
	s := open(t, cfg)
	r := newResults(t)
	for name, end := range map[string]func() error{"stop": n.Stop, "kill": n.Kill} {
		stop := make(chan struct{})
		done := burst(t, s, r, stop)
		acked := s.Stats().Acked
		eventually(t, "traffic", func() bool { return s.Stats().Acked > acked+50 })
		must(t, end())
		eventually(t, name+" noticed", func() bool { return !s.Ready() && s.LastError() != nil })
		must(t, n.Start(t.Context()))
		must(t, s.WaitReady(testCtx(t)))
		acked = s.Stats().Acked
		eventually(t, "traffic again", func() bool { return s.Stats().Acked > acked+50 })
		close(stop)
		<-done
	}
	r.wait()
	tally := r.tally()
	if known(tally) != r.sent {
		t.Errorf("outcomes of %d sends: %v; want no answer about a message", r.sent, tally)
	}
	c := amqptest.Connect(t, n.URL())
	queued := ids(t, c, "q")
	for id, o := range r.byID {
		if o.Kind == model.Acked && queued[id] == 0 {
			t.Fatal("an acked message is not in the queue after the restarts")
		}
	}
}

func TestC04_ConnectionsClosedByTheBroker(t *testing.T) {
	n, cfg := onNode(t)
	s := open(t, cfg)
	r := newResults(t)
	stop := make(chan struct{})
	done := burst(t, s, r, stop)
	eventually(t, "traffic", func() bool { return s.Stats().Acked > 50 })
	must(t, n.CloseAllConnections())
	eventually(t, "a new connection", func() bool { return s.Stats().Generation > 1 && s.Ready() })
	close(stop)
	<-done
	r.wait()
	tally := r.tally()
	if known(tally) != r.sent {
		t.Errorf("outcomes of %d sends: %v", r.sent, tally)
	}
	if conns, err := n.Connections(); err != nil || conns != 1 {
		t.Errorf("%d connections (%v), want 1", conns, err)
	}
}

func TestOversizeIsNarrowedAndPinned(t *testing.T) {
	_, cfg := onNode(t)
	s := open(t, cfg)
	r := newResults(t)
	big := message(t, "ex", "k")
	big.Body = make([]byte, 1<<20+1)
	r.send(s, message(t, "ex", "k"))
	r.wait()
	var bigID string
	for i := range 300 {
		if i == 150 {
			bigID = r.send(s, big)
		}
		r.send(s, message(t, "ex", "k"))
	}
	r.wait()
	r.want(bigID, model.Unknown, model.CodeSuspect)
	if tally := r.tally(); tally["unknown suspect"] != 1 || tally["acked"]+tally["unknown closed"] != 301 {
		t.Errorf("outcomes: %v", tally)
	}
	must(t, s.WaitReady(testCtx(t)))
	r = newResults(t)
	r.send(s, big, alone)
	r.wait()
	if o := r.outcome(bigID); o.Kind != model.Refused || o.Code != model.CodePrecondition || !o.Permanent {
		t.Errorf("alone: %+v, want refused with 406 for good", o)
	}

	// From now on the sender knows what is too large: no neighbour loses its confirm by it.
	r = newResults(t)
	for i := range 200 {
		if i%10 == 0 {
			m := message(t, "ex", "k")
			m.Body = make([]byte, 1<<20+1+i)
			r.send(s, m)
		}
		r.send(s, message(t, "ex", "k"))
	}
	r.wait()
	r.wantAll(map[string]int{"acked": 200, "refused 406": 20})
}

func TestTopicPermissionSuspectsTheExchange(t *testing.T) {
	n, _ := onNode(t)
	must(t, n.AddUser("writer", "secret", "", "^allowed$", ""))
	c := amqptest.Connect(t, n.URL())
	must(t, c.Exchange("allowed", "fanout", nil), c.Exchange("denied", "fanout", nil), c.Bind("q", "allowed", ""))
	s := open(t, configFor(t, n.URLFor("writer", "secret", "/")))
	r := newResults(t)
	denied := r.send(s, message(t, "denied", ""))
	r.wait()
	r.want(denied, model.Unknown, model.CodeSuspect)
	must(t, s.WaitReady(testCtx(t)))
	r = newResults(t)
	denied = r.send(s, message(t, "denied", ""), alone)
	good := r.send(s, message(t, "allowed", ""))
	r.wait()
	r.want(denied, model.Refused, model.CodeAccessRefused)
	r.want(good, model.Acked, "")
}

func TestC31_SpecialCharactersInUserAndVHost(t *testing.T) {
	n, _ := onNode(t)
	const password, vhost = `p#a%s/s?w@d^`, "a/b"
	must(t, n.AddVHost(vhost), n.AddUser("odd", password, ".*", ".*", ".*"),
		n.SetPermissions("odd", vhost, ".*", ".*", ".*"))
	byURL := configFor(t, n.URLFor("odd", password, vhost))
	byField := confirms.Config{
		Addrs: []string{n.Addr()}, VHost: vhost,
		Credentials: func(context.Context) (string, string, error) { return "odd", password, nil },
	}
	for name, cfg := range map[string]confirms.Config{"url": byURL, "fields": byField} {
		s := start(t, cfg)
		if err := s.WaitReady(testCtx(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestC28_C31_RefusalsSayWhyWithoutSecrets(t *testing.T) {
	n, _ := onNode(t)
	const canary = "CANARY-secret"
	for name, c := range map[string]struct {
		url  string
		want string
	}{
		"wrong password": {n.URLFor("guest", canary, "/"), "refuses user or password"},
		"unknown vhost":  {n.URLFor("guest", "guest", "no-such"), "virtual host does not exist"},
		"nothing there":  {"amqp://guest:" + canary + "@127.0.0.1:1/", "nothing listens there"},
		"no such host":   {"amqp://guest:" + canary + "@no-such-host.invalid/", "does not resolve"},
		"tls on plain":   {strings.Replace(n.URLFor("guest", canary, "/"), "amqp:", "amqps:", 1), "does not speak TLS"},
	} {
		logs := &logBuffer{}
		cfg := configFor(t, c.url)
		cfg.Logger = textLogger(logs)
		s := start(t, cfg)
		eventually(t, name, func() bool { return s.LastError() != nil })
		if text := s.LastError().Error(); !strings.Contains(text, c.want) {
			t.Errorf("%s: got %q, want a hint with %q", name, text, c.want)
		}
		all := logs.String() + s.LastError().Error()
		if strings.Contains(all, canary) || !strings.Contains(all, c.want) {
			t.Errorf("%s: log with the secret or without the hint: %s", name, all)
		}
	}
}

// E11: a user who may have one connection cannot send suspects alone. That is known at
// start, said with what is needed, and over as soon as the limit is raised.
func TestE11_ConnectionLimitIsSaid(t *testing.T) {
	n, _ := onNode(t)
	must(t, n.AddUser("one", "pass", ".*", ".*", ".*"))
	_, err := n.Ctl("set_user_limits", "one", `{"max-connections":1}`)
	must(t, err)
	cfg := configFor(t, n.URLFor("one", "pass", "/"))
	cfg.TrySuspects = true
	s := open(t, cfg)
	must(t, s.WaitReady(testCtx(t)))
	eventually(t, "the limit is said at start", func() bool { return s.SuspectsError() != nil })
	if text := s.SuspectsError().Error(); !strings.Contains(text, "raise max-connections") ||
		!strings.Contains(text, "limit") || strings.Contains(text, "pass ") {
		t.Errorf("said %q, want the broker's words and what is needed", text)
	}
	r := newResults(t)
	id := r.send(s, message(t, "ex", "k"), alone)
	other := r.send(s, message(t, "ex", "k"))
	r.wait()
	r.want(id, model.Deferred, model.CodeNotSent)
	if o := r.outcome(other); o.Kind != model.Acked {
		t.Errorf("a message that need not go alone: %v", o)
	}
	_, err = n.Ctl("set_user_limits", "one", `{"max-connections":2}`)
	must(t, err)
	eventually(t, "a suspect is sent after the limit was raised", func() bool {
		again := newResults(t)
		id := again.send(s, message(t, "ex", "k"), alone)
		again.wait()
		return again.outcome(id).Kind == model.Acked
	})
	if err := s.SuspectsError(); err != nil {
		t.Errorf("with a connection for suspects: %v", err)
	}
}
