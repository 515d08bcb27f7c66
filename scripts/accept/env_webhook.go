package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/transmsg/transmsg/alert"
)

// What a webhook does with a call.
const (
	hookHangs = "hangs"
	hookFails = "fails"
	hookWorks = "works"
)

// webhook is a receiver of alerts, on 127.0.0.1.
type webhook struct {
	url    string
	secret []byte
	server *http.Server

	mu       sync.Mutex
	mode     string
	leave    chan struct{} // closed when hanging calls are to end
	calls    map[string]int
	accepted []hookAlert
	bodies   []string // of all calls
	unsigned int
}

// hookAlert is what is looked at in a posted alert.
type hookAlert struct {
	Kind       string
	Service    string
	Exchange   string
	RoutingKey string `json:"routing_key"`
	Code       string
	Count      int
	First      time.Time
	Last       time.Time
	Sample     struct{ ID, Key string }
	Command    string
}

// newWebhook starts one that works; the world closes it.
func (w *world) newWebhook(token, secret string) (*webhook, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h := &webhook{
		url: "http://" + listener.Addr().String() + "/hook/" + token, secret: []byte(secret),
		mode: hookWorks, leave: make(chan struct{}), calls: map[string]int{},
	}
	h.server = &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- h.server.Serve(listener) }()
	w.later(func() error {
		h.become(hookWorks)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err := h.server.Shutdown(ctx)
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	})
	return h, nil
}

// become changes what it does; calls that hang end without an answer.
func (h *webhook) become(mode string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.leave)
	h.mode, h.leave = mode, make(chan struct{})
}

// ServeHTTP takes one alert.
func (h *webhook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var a hookAlert
	err = json.Unmarshal(body, &a)
	h.mu.Lock()
	mode, leave := h.mode, h.leave
	h.calls[mode]++
	h.bodies = append(h.bodies, string(body))
	if err != nil || alert.Verify(h.secret, r.Header.Get(alert.SignatureHeader), body, 5*time.Minute) != nil {
		h.unsigned++
	}
	if mode == hookWorks {
		h.accepted = append(h.accepted, a)
	}
	h.mu.Unlock()
	switch mode {
	case hookHangs:
		select {
		case <-leave:
		case <-r.Context().Done():
		}
	case hookFails:
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// called returns how often it was called in a mode.
func (h *webhook) called(mode string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[mode]
}

// dead returns the alerts about DEAD rows that it accepted.
func (h *webhook) dead() []hookAlert {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []hookAlert
	for _, a := range h.accepted {
		if a.Kind == "dead" {
			list = append(list, a)
		}
	}
	return list
}
