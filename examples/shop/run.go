package shop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Part is a part of a service. It works until ctx ends, and returns nil when it has finished what it began.
type Part func(ctx context.Context) error

// Main runs a service until it is asked to end.
func Main(run func(ctx context.Context) error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// All runs the parts of a service. The end of one is the end of all; it returns after the last.
func All(ctx context.Context, parts ...Part) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, len(parts))
	for _, part := range parts {
		go func() {
			defer stop()
			ended <- part(ctx)
		}()
	}
	var err error
	for range parts {
		err = errors.Join(err, <-ended)
	}
	return err
}

// Serve answers HTTP requests at an address.
func Serve(addr string, h http.Handler) Part {
	return func(ctx context.Context) error {
		server := &http.Server{Addr: addr, Handler: h, ReadHeaderTimeout: 5 * time.Second}
		failed := make(chan error, 1)
		go func() { failed <- server.ListenAndServe() }()
		select {
		case err := <-failed:
			return fmt.Errorf("serve HTTP: %w", err)
		case <-ctx.Done():
		}
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return server.Shutdown(closing)
	}
}

// Answer writes v as JSON. A client that has gone gets nothing.
func Answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v)
}
