package faultproxy_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/transmsg/transmsg/internal/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is a real TCP server that sends back what it gets.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			})
		}
	})
	t.Cleanup(func() { l.Close(); wg.Wait() })
	return l.Addr().String()
}

func newProxy(t *testing.T, target string) *faultproxy.Proxy {
	t.Helper()
	p, err := faultproxy.New(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(p.Close(), p.Close()); err != nil {
			t.Error(err)
		}
	})
	return p
}

func dial(t *testing.T, p *faultproxy.Proxy) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// unserved wants a connection that fails, which the reset may make it do as
// early as in the dial.
func unserved(t *testing.T, p *faultproxy.Proxy) {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		return
	}
	defer c.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection was served")
	}
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

// until polls for a named state.
func until(t *testing.T, state string, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not reached: %s", state)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestBytesPassUnchanged(t *testing.T) {
	t.Parallel()
	p := newProxy(t, echo(t))
	c := dial(t, p)
	sent := make([]byte, 3<<20)
	_, _ = rand.Read(sent)
	go func() {
		_, _ = c.Write(sent)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("got %d bytes, %v; want the %d sent", len(got), err, len(sent))
	}
	if a, b := p.BytesThrough(faultproxy.ToServer), p.BytesThrough(faultproxy.ToClient); a != 3<<20 || b != 3<<20 {
		t.Errorf("bytes through = %d, %d", a, b)
	}
	until(t, "the connection has ended", func() bool { return p.Conns() == 0 })
}

func TestCutClosesLiveConnectionsAlone(t *testing.T) {
	t.Parallel()
	p := newProxy(t, echo(t))
	for _, reset := range []bool{false, true} {
		c := dial(t, p)
		say(t, c, "a")
		hear(t, c, "a")
		if n := p.Cut(reset); n != 1 {
			t.Errorf("Cut(%t) = %d, want 1", reset, n)
		}
		_, err := c.Read(make([]byte, 1))
		if reset && !errors.Is(err, syscall.ECONNRESET) || !reset && !errors.Is(err, io.EOF) {
			t.Errorf("read after Cut(%t) = %v", reset, err)
		}
		until(t, "the cut connection is gone", func() bool { return p.Conns() == 0 })
	}
	c := dial(t, p)
	say(t, c, "b")
	hear(t, c, "b")
	if s := p.Stats(); s.Cut != 2 || s.Accepted != 3 {
		t.Errorf("stats = %+v", s)
	}
}

func TestRefuseResetsNewConnectionsAlone(t *testing.T) {
	t.Parallel()
	p := newProxy(t, echo(t))
	old := dial(t, p)
	say(t, old, "a")
	hear(t, old, "a")
	p.Refuse(true)
	unserved(t, p)
	say(t, old, "b")
	hear(t, old, "b")
	p.Refuse(false)
	c := dial(t, p)
	say(t, c, "c")
	hear(t, c, "c")
	if s := p.Stats(); s.Refused != 1 || s.Accepted != 2 {
		t.Errorf("stats = %+v", s)
	}
}

func TestStallHoldsOneDirectionUntilResume(t *testing.T) {
	t.Parallel()
	for _, dir := range []faultproxy.Dir{faultproxy.ToServer, faultproxy.ToClient} {
		p := newProxy(t, echo(t))
		c := dial(t, p)
		say(t, c, "before")
		hear(t, c, "before")
		p.Stall(dir)
		p.Stall(dir)
		say(t, c, "held")
		until(t, "the bytes are held", func() bool { return p.Stats().Stalled == 1 })
		if got := p.BytesThrough(dir); got != int64(len("before")) {
			t.Errorf("direction %d: %d bytes through under the stall", dir, got)
		}
		if dir == faultproxy.ToClient && p.BytesThrough(faultproxy.ToServer) != int64(len("beforeheld")) {
			t.Error("the other direction is stalled too")
		}
		if p.Conns() != 1 {
			t.Error("the stalled connection was closed")
		}
		say(t, c, " on")
		p.Resume()
		p.Resume()
		hear(t, c, "held on")
	}
}

// A sender whose bytes go nowhere must block, as with a full window.
func TestStallBlocksTheSender(t *testing.T) {
	t.Parallel()
	p := newProxy(t, echo(t))
	c := dial(t, p)
	p.Stall(faultproxy.ToServer)
	if err := c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := c.Write(make([]byte, 64<<20))
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("wrote %d bytes, %v; want a write that blocks", n, err)
	}
}

func TestDelayKeepsTheOrder(t *testing.T) {
	t.Parallel()
	p := newProxy(t, echo(t))
	c := dial(t, p)
	p.Delay(faultproxy.ToClient, 30*time.Millisecond)
	said := time.Now()
	say(t, c, "slow ")
	until(t, "the bytes wait", func() bool { return p.Stats().Delayed == 1 })
	p.Delay(faultproxy.ToClient, 0)
	say(t, c, "fast")
	hear(t, c, "slow fast")
	if early := 30*time.Millisecond - time.Since(said); early > 0 {
		t.Errorf("arrived %v before its delay", early)
	}
}

func TestUnreachedServerResetsTheClient(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	target := l.Addr().String()
	l.Close()
	p := newProxy(t, target)
	unserved(t, p)
	until(t, "the failed dial is counted", func() bool { return p.Stats().Unreached == 1 })
}

func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	p := newProxy(t, echo(t))
	c := dial(t, p)
	p.Stall(faultproxy.ToServer)
	p.Delay(faultproxy.ToServer, time.Hour)
	say(t, c, "never")
	until(t, "the connection is live", func() bool { return p.Conns() == 1 })
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection outlived the proxy")
	}
	if c, err := net.Dial("tcp", p.Addr()); err == nil {
		c.Close()
		t.Error("the proxy still listens")
	}
}

// A limited direction passes everything on, in parts of its rate; the other is not limited.
func TestLimit(t *testing.T) {
	t.Parallel()
	p := newProxy(t, echo(t))
	p.Limit(faultproxy.ToClient, 1)
	c := dial(t, p)
	sent := make([]byte, 200<<10)
	_, _ = rand.Read(sent)
	if _, err := c.Write(sent); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(sent))
	begin := time.Now()
	if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent) {
		t.Fatalf("%v, equal: %v", err, bytes.Equal(got, sent))
	}
	// 32 KiB at once, the rest at the least rate of 64 KiB a second: a lower bound of what a
	// rate is, not a measurement.
	if took := time.Since(begin); took < time.Second {
		t.Errorf("200 KiB took %v", took)
	}
	if s := p.Stats(); s.Limited < 7 {
		t.Errorf("%d chunks limited, want at least 7", s.Limited)
	}
}

// TestAimMovesNewConnectionsAlone: a live connection stays where it was dialled to, and
// several targets are dialled in turn.
func TestAimMovesNewConnectionsAlone(t *testing.T) {
	t.Parallel()
	names := map[string]string{}
	for _, name := range []string{"a", "b"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		names[name] = l.Addr().String()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(prefixed{c, name}, c); _ = c.Close() }()
			}
		}()
	}
	p, err := faultproxy.New(names["a"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	ask := func(c net.Conn) string {
		t.Helper()
		buf := make([]byte, 2)
		if _, err := c.Write([]byte("?")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			t.Fatal(err)
		}
		return string(buf)
	}
	dial := func() net.Conn {
		c, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	old := dial()
	before := ask(old)
	p.Aim(names["b"])
	if moved := ask(dial()); before != "a?" || moved != "b?" || ask(old) != "a?" {
		t.Errorf("before %q, moved %q, want the new connection alone at b", before, moved)
	}
	p.Aim(names["a"], names["b"])
	if one, two := ask(dial()), ask(dial()); one == two {
		t.Errorf("two targets: %q and %q, want them in turn", one, two)
	}
}

// prefixed puts a server's name before what it echoes.
type prefixed struct {
	net.Conn

	name string
}

func (p prefixed) Write(b []byte) (int, error) {
	_, err := p.Conn.Write(append([]byte(p.name), b...))
	return len(b), err
}
