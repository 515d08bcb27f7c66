package scriptedbroker

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Options of a peer; the zero value hands every publish to NextPublish.
type Options struct {
	// Heartbeat is what the peer asks for in tune, in whole seconds; 0 means
	// 10 s, as RabbitMQ. The client takes the smaller of both.
	Heartbeat time.Duration
	// ChannelMax is the most channels of a connection, as the peer says in tune; 0
	// means 2047, as RabbitMQ. The client keeps to it; the peer does not check.
	ChannelMax uint16
	// OnPublish, when set, is called with every publish instead of queueing it
	// for NextPublish: one at a time and in order for each connection, at the
	// same time for several. While it runs nothing is read from that connection,
	// and Close waits for it.
	OnPublish func(*Publish)
}

// Peer listens on a port of its own on 127.0.0.1 for any user and any virtual
// host. Safe for concurrent use.
type Peer struct {
	listener  net.Listener
	options   Options
	publishes *queue[*Publish]
	opened    *queue[*Conn]
	wg        sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	conns    map[*Conn]struct{}
	missing  map[string]bool
	declared map[string]int
}

// New starts a peer; the caller calls Close, which waits for its goroutines.
func New(options Options) (*Peer, error) {
	if options.Heartbeat == 0 {
		options.Heartbeat = 10 * time.Second
	}
	if options.ChannelMax == 0 {
		options.ChannelMax = 2047
	}
	if options.Heartbeat < time.Second || options.Heartbeat%time.Second != 0 {
		return nil, fmt.Errorf("amqp peer: Heartbeat %v is not a whole number of seconds", options.Heartbeat)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("amqp peer: %w", err)
	}
	p := &Peer{
		listener: l, options: options,
		publishes: newQueue[*Publish](), opened: newQueue[*Conn](),
		conns: map[*Conn]struct{}{}, missing: map[string]bool{}, declared: map[string]int{},
	}
	p.wg.Go(p.accept)
	return p, nil
}

// Addr returns 127.0.0.1:port.
func (p *Peer) Addr() string { return p.listener.Addr().String() }

// URL returns an AMQP URL of the peer.
func (p *Peer) URL() string { return "amqp://guest:guest@" + p.Addr() + "/" }

// Close cuts every connection, stops listening and waits until the last
// goroutine has ended. Closing twice is nil.
func (p *Peer) Close() error {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	conns := make([]*Conn, 0, len(p.conns))
	for c := range p.conns {
		conns = append(conns, c)
	}
	p.mu.Unlock()
	var err error
	if !closed {
		err = p.listener.Close()
	}
	for _, c := range conns {
		c.Cut()
	}
	p.wg.Wait()
	return err
}

// NextConn returns the next connection, in the order in which they were opened
// (connection.open-ok was sent), and waits for one until ctx ends.
func (p *Peer) NextConn(ctx context.Context) (*Conn, error) {
	c, err := p.opened.next(ctx)
	if err != nil {
		return nil, fmt.Errorf("amqp peer: next connection: %w", err)
	}
	return c, nil
}

// NextPublish returns the next message, in order of arrival over all
// connections, and waits for one until ctx ends.
func (p *Peer) NextPublish(ctx context.Context) (*Publish, error) {
	m, err := p.publishes.next(ctx)
	if err != nil {
		return nil, fmt.Errorf("amqp peer: next publish: %w", err)
	}
	return m, nil
}

// SetMissing makes exchange.declare of an exchange answer 404 NOT_FOUND, which
// closes that channel, or ends that. At first every exchange exists.
func (p *Peer) SetMissing(exchange string, missing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missing[exchange] = missing
}

// Declares returns how often an exchange has been declared.
func (p *Peer) Declares(exchange string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.declared[exchange]
}

// Conns returns how many connections are live, also those not opened yet.
func (p *Peer) Conns() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// declare counts a declare and says whether the exchange exists.
func (p *Peer) declare(exchange string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.declared[exchange]++
	return !p.missing[exchange]
}

func (p *Peer) publish(m *Publish) {
	if p.options.OnPublish != nil {
		p.options.OnPublish(m)
		return
	}
	p.publishes.add(m)
}

func (p *Peer) accept() {
	for {
		raw, err := p.listener.Accept()
		if err != nil {
			return // Closed.
		}
		c := newConn(p, raw)
		if !p.admit(c) {
			_ = raw.Close()
			return
		}
		p.wg.Go(func() {
			defer p.forget(c)
			c.serve()
		})
	}
}

func (p *Peer) admit(c *Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.conns[c] = struct{}{}
	}
	return !p.closed
}

func (p *Peer) forget(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}
