package faultproxy

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Dir is a direction of bytes through the proxy.
type Dir int

// The directions.
const (
	ToServer Dir = iota
	ToClient
)

// Stats counts since New what went through and what each fault did.
type Stats struct {
	Accepted      int   // Connections passed on to the server.
	Unreached     int   // Connections closed since the server did not accept.
	Refused       int   // Connections closed by Refuse.
	Cut           int   // Connections closed by Cut.
	Stalled       int   // Chunks of bytes that waited for Resume.
	Limited       int   // Chunks of bytes that took part of a limited rate.
	Delayed       int   // Chunks of bytes that waited for their delay.
	SwallowedAcks int   // basic.ack frames taken out; one may stand for many tags.
	BytesToServer int64 // Bytes written to servers.
	BytesToClient int64 // Bytes written to clients.
}

// Proxy listens on a port of its own on 127.0.0.1. Safe for concurrent use.
type Proxy struct {
	listener net.Listener
	wg       sync.WaitGroup
	swallow  atomic.Bool

	mu      sync.Mutex
	targets []string // In turn.
	turn    int
	closed  bool
	refuse  bool
	conns   map[*conn]struct{}
	delay   [2]time.Duration
	flowing [2]chan struct{} // Closed while bytes flow.
	rate    [2]*rate.Limiter // nil: without limit.
	stats   Stats
}

// New starts a proxy to target (host:port), which need not answer yet. The
// caller calls Close, which waits for the proxy's goroutines.
func New(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("fault proxy: %w", err)
	}
	p := &Proxy{listener: l, targets: []string{target}, conns: map[*conn]struct{}{}}
	for dir := range p.flowing {
		p.flowing[dir] = make(chan struct{})
		close(p.flowing[dir])
	}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr returns the address that clients dial.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Close cuts every connection, stops listening and waits until the last
// goroutine has ended. Closing twice is nil.
func (p *Proxy) Close() error {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	var err error
	if !closed {
		err = p.listener.Close()
	}
	for _, c := range p.live() {
		c.close()
	}
	p.wg.Wait()
	return err
}

// Cut closes every live connection on both sides, with a TCP reset when reset
// is true, and says how many there were. New connections are accepted.
func (p *Proxy) Cut(reset bool) int {
	conns := p.live()
	for _, c := range conns {
		if reset {
			c.reset()
		}
		c.close()
	}
	p.count(func(s *Stats) { s.Cut += len(conns) })
	return len(conns)
}

// Aim leads new connections to other servers, in turn where there are several, as an address
// that moves or a balancer does. Live connections stay where they are.
func (p *Proxy) Aim(targets ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.targets = targets
}

func (p *Proxy) next() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.turn++
	return p.targets[p.turn%len(p.targets)]
}

// Refuse makes the proxy reset new connections at once, or ends that. Live
// connections stay.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuse = on
}

// Stall stops the bytes of a direction on all connections, live and new, while
// the sockets stay open. The proxy takes up to 1 MiB per connection from the
// sender meanwhile; then the sender's writes block.
func (p *Proxy) Stall(dir Dir) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.flowing[dir]:
		p.flowing[dir] = make(chan struct{})
	default: // Stalled already.
	}
}

// Resume lets the bytes of both directions flow again, those held back first.
func (p *Proxy) Resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, flowing := range p.flowing {
		select {
		case <-flowing:
		default:
			close(flowing)
		}
	}
}

// Delay makes each byte of a direction arrive d later than it would have, in
// order; 0 ends that for bytes that arrive from then on.
func (p *Proxy) Delay(dir Dir, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay[dir] = d
}

// Limit lets so many bytes a second through in a direction, of all connections together,
// at least 64 KiB; 0 ends that for bytes that arrive from then on.
func (p *Proxy) Limit(dir Dir, bytesPerSecond int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate[dir] = nil
	if bytesPerSecond > 0 {
		p.rate[dir] = rate.NewLimiter(rate.Limit(max(bytesPerSecond, 2*chunkSize)), chunkSize)
	}
}

// SwallowAcks takes every basic.ack that the broker sends out of the stream, on
// connections that began with an AMQP protocol header, or ends that. What was
// taken out is never sent.
func (p *Proxy) SwallowAcks(on bool) { p.swallow.Store(on) }

// Conns returns how many connections are live.
func (p *Proxy) Conns() int { return len(p.live()) }

// BytesThrough returns how many bytes have been written in a direction.
func (p *Proxy) BytesThrough(dir Dir) int64 {
	s := p.Stats()
	if dir == ToServer {
		return s.BytesToServer
	}
	return s.BytesToClient
}

// Stats returns the counters.
func (p *Proxy) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

func (p *Proxy) count(f func(*Stats)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.stats)
}

func (p *Proxy) live() []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	conns := make([]*conn, 0, len(p.conns))
	for c := range p.conns {
		conns = append(conns, c)
	}
	return conns
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return // Closed.
		}
		p.wg.Go(func() { p.serve(client) })
	}
}

// serve passes one connection on until it ends.
func (p *Proxy) serve(client net.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	c := &conn{proxy: p, cancel: cancel, client: client}
	if !p.admit(c) {
		c.reset()
		c.close()
		return
	}
	defer p.forget(c)
	defer c.close()
	if err := c.dial(ctx, p.next()); err != nil {
		p.count(func(s *Stats) { s.Unreached++ })
		c.reset()
		return
	}
	p.count(func(s *Stats) { s.Accepted++ })
	c.run(ctx)
}

// admit registers a connection before the server is dialled, so that Cut and
// Close reach it at any time.
func (p *Proxy) admit(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse {
		p.stats.Refused++
	}
	if p.refuse || p.closed {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) forget(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}
