package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/transmsg/transmsg/collector"
)

const (
	readyTimeout = 2 * time.Second
	httpTimeout  = 10 * time.Second
)

// database is what readiness asks of the store.
type database interface {
	Ping(context.Context) error
	CheckSchema(context.Context) error
}

// broker is what readiness reports of the sender.
type broker interface{ Ready() bool }

// probes are what readiness looks at. Without a collector there is no word of it.
type probes struct {
	database
	broker    broker
	collector *collector.Collector
}

// healthServer answers /healthz, /readyz and /metrics. Ready means that the database answers and has
// the schema. A broker that is down is reported and never makes the process unready:
// restarting it would mend nothing.
type healthServer struct {
	listener net.Listener // nil when there is no HTTP
	server   *http.Server
}

// newHealthServer listens on addr; empty is no server. It serves nothing before run. clean
// is the last defence against secrets in what it shows.
func newHealthServer(
	ctx context.Context, addr string, p probes, metrics http.Handler, clean func(error) string,
) (*healthServer, error) {
	if addr == "" {
		return &healthServer{}, nil
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, usagef("--http %q must be host:port, such as %s", addr, defaultHTTP)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--http %s: %w; choose another port or --http ''", addr, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { readiness(w, r, p, clean) })
	mux.Handle("GET /metrics", metrics)
	return &healthServer{listener: l, server: &http.Server{
		Handler: mux, ReadHeaderTimeout: httpTimeout, ReadTimeout: httpTimeout, WriteTimeout: httpTimeout,
		MaxHeaderBytes: 16 << 10,
	}}, nil
}

// readiness is the documented answer of /readyz.
func readiness(w http.ResponseWriter, r *http.Request, p probes, clean func(error) string) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	state := map[string]string{"status": "ready", "database": "ok", "broker": "ok"}
	code := http.StatusOK
	if !p.broker.Ready() {
		state["broker"] = "not connected or blocked; messages wait in the store"
	}
	if p.collector != nil {
		state["collector"] = collecting(p.collector, clean)
	}
	err := p.Ping(ctx)
	if err == nil {
		err = p.CheckSchema(ctx)
	}
	if err != nil {
		code = http.StatusServiceUnavailable
		state["status"], state["database"] = "not ready", clean(err)
	}
	answer(w, code, state)
}

// collecting says which queues are not collected, and why, or that all are.
func collecting(c *collector.Collector, clean func(error) string) string {
	var away []string
	for _, s := range c.States() {
		if s.Reason != "" {
			away = append(away, s.Queue+": "+s.Reason)
		}
	}
	if len(away) == 0 {
		return "ok"
	}
	return clean(errors.New(strings.Join(away, "; ")))
}

func answer(w http.ResponseWriter, code int, body map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // a client that has gone needs no answer
}

func (h *healthServer) addr() string {
	if h.listener == nil {
		return "none"
	}
	return h.listener.Addr().String()
}

// run serves until ctx ends, and then finishes the requests under way.
func (h *healthServer) run(ctx context.Context) error {
	if h.listener == nil {
		return nil
	}
	served := make(chan error, 1)
	go func() { served <- h.server.Serve(h.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("http: %w", err)
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err := errors.Join(h.server.Shutdown(closing), h.server.Close())
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	if err != nil && !errors.Is(err, context.DeadlineExceeded) { // a client that lingers is cut off
		return fmt.Errorf("http: %w", err)
	}
	return nil
}
