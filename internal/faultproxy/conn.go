package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	maxHeld   = 1 << 20 // Bytes held per connection and direction.
	chunkSize = 32 << 10
	maxChunks = 8192
)

// conn is one client connection and its connection to the server.
type conn struct {
	proxy  *Proxy
	cancel context.CancelFunc // Ends the connection's waits.
	amqp   atomic.Bool        // The client began with an AMQP protocol header.

	mu     sync.Mutex
	client net.Conn
	server net.Conn // nil before it is dialled.
}

// chunk is what one read returned, and when it is due.
type chunk struct {
	data []byte
	held int64 // Bytes to give back to the semaphore.
	due  time.Time
}

// pipe is one direction of a connection.
type pipe struct {
	dir      Dir
	src, dst net.Conn
	chunks   chan chunk
	held     *semaphore.Weighted
}

func newPipe(dir Dir, src, dst net.Conn) *pipe {
	return &pipe{
		dir: dir, src: src, dst: dst,
		chunks: make(chan chunk, maxChunks), held: semaphore.NewWeighted(maxHeld),
	}
}

func (c *conn) dial(ctx context.Context, target string) error {
	var d net.Dialer
	server, err := d.DialContext(ctx, "tcp", target)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil { // Cut meanwhile.
		return errors.Join(err, server.Close())
	}
	c.server = server
	return nil
}

// close ends both sides. The first call counts.
func (c *conn) close() {
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	_ = c.client.Close()
	if c.server != nil {
		_ = c.server.Close()
	}
}

// reset makes the close that follows a TCP reset.
func (c *conn) reset() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, side := range []net.Conn{c.client, c.server} {
		if tcp, ok := side.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
	}
}

func (c *conn) run(ctx context.Context) {
	var wg sync.WaitGroup
	for _, way := range []*pipe{newPipe(ToServer, c.client, c.server), newPipe(ToClient, c.server, c.client)} {
		wg.Go(func() { c.read(ctx, way) })
		wg.Go(func() { c.write(ctx, way) })
	}
	wg.Wait()
}

// read takes bytes from src into chunks until src ends. An orderly end is
// passed on behind the bytes; any other ends the connection.
func (c *conn) read(ctx context.Context, way *pipe) {
	defer close(way.chunks)
	buf := make([]byte, chunkSize)
	for first := true; ; first = false {
		n, err := way.src.Read(buf)
		if way.dir == ToServer && first && bytes.HasPrefix(buf[:n], []byte("AMQP")) {
			c.amqp.Store(true)
		}
		if n > 0 && !c.enqueue(ctx, way, bytes.Clone(buf[:n])) {
			return
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			c.close()
			return
		}
	}
}

func (c *conn) enqueue(ctx context.Context, way *pipe, data []byte) bool {
	now, n := time.Now(), int64(len(data))
	if way.held.Acquire(ctx, n) != nil {
		return false
	}
	p := c.proxy
	p.mu.Lock()
	due := now.Add(p.delay[way.dir])
	p.mu.Unlock()
	select {
	case way.chunks <- chunk{data: data, held: n, due: due}:
		return true
	case <-ctx.Done():
		return false
	}
}

// write passes chunks on to dst when they are due and bytes flow.
func (c *conn) write(ctx context.Context, way *pipe) {
	filter := ackFilter{}
	for ch := range way.chunks {
		if !c.wait(ctx, way.dir, ch.due, len(ch.data)) {
			return
		}
		data := ch.data
		if way.dir == ToClient && c.amqp.Load() {
			var swallowed int
			data, swallowed = filter.pass(data, c.proxy.swallow.Load())
			c.proxy.count(func(s *Stats) { s.SwallowedAcks += swallowed })
		}
		n, err := way.dst.Write(data)
		c.proxy.count(func(s *Stats) {
			if way.dir == ToServer {
				s.BytesToServer += int64(n)
			} else {
				s.BytesToClient += int64(n)
			}
		})
		if err != nil {
			c.close()
			return
		}
		way.held.Release(ch.held)
	}
	if tcp, ok := way.dst.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}

// wait returns false when the connection ends first.
func (c *conn) wait(ctx context.Context, dir Dir, due time.Time, n int) bool {
	p := c.proxy
	if d := time.Until(due); d > 0 {
		p.count(func(s *Stats) { s.Delayed++ })
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
	p.mu.Lock()
	flowing, limit := p.flowing[dir], p.rate[dir]
	p.mu.Unlock()
	if limit != nil {
		p.count(func(s *Stats) { s.Limited++ })
		if limit.WaitN(ctx, n) != nil {
			return false
		}
	}
	select {
	case <-flowing:
		return true
	default:
		p.count(func(s *Stats) { s.Stalled++ })
	}
	select {
	case <-flowing:
		return true
	case <-ctx.Done():
		return false
	}
}
