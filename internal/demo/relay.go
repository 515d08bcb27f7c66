package demo

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// relay stands between the demo's publisher and the broker, so that the demo can cut a
// real connection at the worst moment: after the broker got messages and before its
// confirms arrive.
type relay struct {
	listener net.Listener
	target   string
	sent     atomic.Int64 // bytes forwarded to the broker

	mu    sync.Mutex
	pairs map[net.Conn]net.Conn // client side to broker side
	held  chan struct{}         // not nil: answers of the broker wait for it to close
	wg    sync.WaitGroup
}

// newRelay listens on a free loopback port; close ends it.
func newRelay(ctx context.Context, target string) (*relay, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("relay: %w", err)
	}
	r := &relay{listener: l, target: target, pairs: map[net.Conn]net.Conn{}}
	r.wg.Go(r.accept)
	return r, nil
}

func (r *relay) addr() string { return r.listener.Addr().String() }

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return // closed
		}
		r.wg.Go(func() { r.serve(client) })
	}
}

// serve forwards one connection until either side ends it.
func (r *relay) serve(client net.Conn) {
	defer client.Close()
	server, err := net.DialTimeout("tcp", r.target, 5*time.Second)
	if err != nil {
		return // the publisher sees a hang-up and tries again
	}
	defer server.Close()
	r.mu.Lock()
	r.pairs[client] = server
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		delete(r.pairs, client)
		r.mu.Unlock()
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(counting{server, &r.sent}, client) // its error is the end of the connection
		server.Close()
	}()
	_, _ = io.Copy(gated{client, r}, server)
	client.Close()
	<-done
}

type counting struct {
	io.Writer
	n *atomic.Int64
}

// Write implements io.Writer.
func (c counting) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}

// gated forwards answers unless they are held.
type gated struct {
	io.Writer
	relay *relay
}

// Write implements io.Writer.
func (g gated) Write(p []byte) (int, error) {
	g.relay.mu.Lock()
	held := g.relay.held
	g.relay.mu.Unlock()
	if held != nil {
		<-held
	}
	return g.Writer.Write(p)
}

// holdAnswers keeps the broker's answers back until cut.
func (r *relay) holdAnswers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held == nil {
		r.held = make(chan struct{})
	}
}

// cut ends all connections, with the answers that were held lost. New ones are let in.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for client, server := range r.pairs {
		client.Close()
		server.Close()
	}
	if r.held != nil {
		close(r.held) // the writes that waited fail on the closed connection
		r.held = nil
	}
}

func (r *relay) close() {
	r.listener.Close()
	r.cut()
	r.wg.Wait()
}
