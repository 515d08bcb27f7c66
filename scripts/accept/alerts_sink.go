package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// What a receiver of alerts does with a call.
const (
	sinkWorks     = "works"
	sinkThrottles = "throttles" // one in so long; 429 with Retry-After to the others
	sinkHangs     = "hangs"     // no answer, to two calls of three
)

// alertSink is a receiver of alerts on 127.0.0.1: of our JSON, or of the text that a chat
// gets.
type alertSink struct {
	url   string
	mode  string
	every time.Duration

	mu    sync.Mutex
	calls int
	next  time.Time // when a throttling one takes the next
	told  []toldAlert
}

// toldAlert is what both forms say.
type toldAlert struct {
	kind, service, code string
	count               int
}

// newAlertSink starts one; the world closes it.
func (w *world) newAlertSink(mode string, every time.Duration) (*alertSink, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &alertSink{url: "http://" + listener.Addr().String() + "/alerts", mode: mode, every: every}
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	w.later(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		err := server.Shutdown(ctx)
		if served := <-done; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
		return err
	})
	return s, nil
}

// ServeHTTP takes one alert, or does not.
func (s *alertSink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.calls++
	wait, hangs := time.Until(s.next), s.mode == sinkHangs && s.calls%3 != 0
	if !hangs && (s.mode != sinkThrottles || wait <= 0) {
		s.next = time.Now().Add(s.every)
		s.told = append(s.told, readAlert(body))
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	if hangs {
		<-r.Context().Done()
		return
	}
	w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
	w.WriteHeader(http.StatusTooManyRequests)
}

var alertText = regexp.MustCompile(`(dead|exhausted): (\d+) message\(s\)[^,]*, service (\S+?),.*?cause (\S+)`)

// readAlert reads our JSON, or the summary where it is a chat's text.
func readAlert(body []byte) toldAlert {
	var p struct {
		Kind, Service, Code string
		Count               int
	}
	if err := json.Unmarshal(body, &p); err == nil && p.Kind != "" {
		return toldAlert{p.Kind, p.Service, p.Code, p.Count}
	}
	m := alertText.FindStringSubmatch(string(body))
	if m == nil {
		return toldAlert{kind: fmt.Sprintf("%.80s", body)}
	}
	n, _ := strconv.Atoi(m[2]) // digits
	return toldAlert{"dead", m[3], m[4], n}
}

// accepted returns the alerts of DEAD rows that it took, in order.
func (s *alertSink) accepted() []toldAlert {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []toldAlert
	for _, a := range s.told {
		if a.kind == "dead" {
			out = append(out, a)
		}
	}
	return out
}

// rows sums up the rows told, by service and code.
func (s *alertSink) rows() map[string]int {
	out := map[string]int{}
	for _, a := range s.accepted() {
		out[a.service+" "+a.code] += a.count
	}
	return out
}
