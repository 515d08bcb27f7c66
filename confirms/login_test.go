package confirms_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/transmsg/transmsg/confirms"
	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/model"
)

// bearer is a config whose login is a token of the given life, a fresh one at each question. It counts the
// questions, the channels that the broker closed and the connections.
type bearer struct {
	confirms.Config

	asked, closed, connections atomic.Int32
	hold                       atomic.Pointer[string] // the same token at each question, while set
}

func newBearer(t *testing.T, url string, oauth *amqptest.OAuth, life time.Duration) *bearer {
	t.Helper()
	b := &bearer{Config: configFor(t, url)}
	b.Credentials = func(context.Context) (string, string, error) {
		b.asked.Add(1)
		if old := b.hold.Load(); old != nil {
			return "service", *old, nil
		}
		token, err := oauth.Token(life, "rabbitmq.write:*/*")
		return "service", token, err
	}
	b.Observers = []confirms.Observer{{
		ChannelClosed: func(int, string) { b.closed.Add(1) },
		Connected:     func(string, uint64) { b.connections.Add(1) },
	}}
	return b
}

func oauthNode(t *testing.T) (*amqptest.Node, *amqptest.OAuth) {
	t.Helper()
	oauth, err := amqptest.NewOAuth(t.TempDir())
	must(t, err)
	node := amqptest.StartNode(t, oauth.Options())
	queueOn(t, amqptest.Connect(t, node.URL()), "ex", "q", "k")
	return node, oauth
}

// E1: tokens of 10 s on the broker's own OAuth2 plugin. The sender outlives three of them on one connection, without a
// channel closed and with every message acked, though it is idle for longer than the broker remembers a right.
func TestE1_LoginIsRenewedOnTheOpenConnection(t *testing.T) {
	t.Parallel()
	node, oauth := oauthNode(t)
	b := newBearer(t, node.URL(), oauth, 10*time.Second)
	s := open(t, b.Config)
	for round := int32(2); round <= 4; round++ {
		eventually(t, "the credentials were asked for again", func() bool { return b.asked.Load() >= round })
		eventually(t, "the sender is ready", s.Ready)
		r := newResults(t)
		for range 20 {
			r.send(s, message(t, "ex", "k"))
		}
		r.wait()
		r.wantAll(map[string]int{"acked": 20})
	}
	if closed, n := b.closed.Load(), b.connections.Load(); closed != 0 || n != 1 {
		t.Errorf("%d channels closed, %d connections, want none and one", closed, n)
	}
}

// E1: a token that ended all the same, since the service got the old one each time. One channel is closed for it, not
// one for each message; no exchange is blamed; and with a fresh token all is sent again.
func TestE1_LoginThatRanOutClosesOneChannel(t *testing.T) {
	t.Parallel()
	node, oauth := oauthNode(t)
	b := newBearer(t, node.URL(), oauth, time.Hour)
	old, err := oauth.Token(3*time.Second, "rabbitmq.write:*/*")
	must(t, err)
	b.hold.Store(&old)
	s := open(t, b.Config)
	// From 4.3 on the broker itself ends the connection (320) with its token.
	ends, err := node.AtLeast(4, 3)
	must(t, err)
	refused := false
	r := newResults(t)
	eventually(t, "the login is refused", func() bool {
		if ends {
			refused = !s.Ready()
			return refused
		}
		id := r.send(s, message(t, "ex", "k"))
		r.wait()
		if o := r.outcome(id); o.Kind == model.Unknown {
			refused = o.Code == model.CodeClosed
			return true
		}
		<-time.After(3 * time.Second) // an idle channel's rights are looked up anew
		return false
	})
	if !refused {
		t.Errorf("outcomes %v, want the refused one unknown, closed: no exchange is to blame", r.tally())
	}
	closed, want := b.closed.Load(), int32(1)
	if ends {
		want = 0
	}
	for range 200 { // while there is no other token there is no room, and a publisher stores only
		if m := message(t, "ex", "k"); s.TryReserve(1, int64(len(m.Body))) {
			r.sendReserved(s, m)
		}
		<-time.After(time.Millisecond)
	}
	r.wait()
	if n := b.closed.Load(); n != closed || n != want {
		t.Errorf("%d channels closed by the first refusal, %d by then, want %d", closed, n, want)
	}
	b.hold.Store(nil)
	must(t, s.WaitReady(testCtx(t)))
	r = newResults(t)
	for range 20 {
		r.send(s, message(t, "ex", "k"))
	}
	r.wait()
	r.wantAll(map[string]int{"acked": 20})
}
