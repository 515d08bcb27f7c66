package alert_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/alert"
	"github.com/transmsg/transmsg/model"
)

// generic is shoutrrr's URL of a plain HTTP server.
func generic(serverURL string) string {
	return "generic+" + serverURL + "/CANARYPATH?token=CANARYTOKEN"
}

func TestShoutrrrSends(t *testing.T) {
	t.Parallel()
	got := make(chan string, 2)
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
	})
	sink, err := alert.NewShoutrrr(generic(s.URL), generic(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Alert(t.Context(), dead()); err != nil {
		t.Fatal(err)
	}
	a := dead()
	for range 2 {
		if body := <-got; !strings.Contains(body, a.String()) {
			t.Errorf("body %q lacks %q", body, a.String())
		}
	}
}

// Whatever goes wrong, the error names position and scheme, and no secret.
func TestShoutrrrErrorsHoldNoSecret(t *testing.T) {
	t.Parallel()
	good := serve(t, func(http.ResponseWriter, *http.Request) {})
	bad := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "CANARY "+r.URL.String(), http.StatusForbidden)
	})
	for name, tt := range map[string]struct {
		url  string
		want []string
	}{
		"403":     {generic(bad.URL), []string{"generic (URL 2)", "delivery failed"}},
		"refused": {generic("http://127.0.0.1:1"), []string{"generic (URL 2)"}},
		"smtp":    {"smtp://u:CANARYPASS@127.0.0.1:1/?from=a@b.c&to=d@e.f", []string{"smtp (URL 2)"}},
	} {
		sink, err := alert.NewShoutrrr(generic(good.URL), tt.url)
		if err != nil {
			t.Fatal(name, err)
		}
		err = sink.Alert(t.Context(), dead())
		if err == nil || strings.Contains(err.Error(), "CANARY") || strings.Contains(err.Error(), "URL 1") {
			t.Errorf("%s: %v, want an error of the second URL without secrets", name, err)
			continue
		}
		for _, part := range tt.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v lacks %q", name, err, part)
			}
		}
	}
	for _, raw := range []string{
		"", "CANARY", "CANARY://x", "slack://CANARY", "telegram://CANARY", "discord://CANARY",
		"smtp://u:CANARY@h:port/", "generic://[CANARY", "://CANARY", "http://u:CANARY@h/",
	} {
		if _, err := alert.NewShoutrrr(raw); err == nil || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%q: %v, want an error without it", raw, err)
		}
	}
	if _, err := alert.NewShoutrrr(); err == nil {
		t.Error("no URL is accepted")
	}
}

// C69: a service that never answers is given up with the context.
func TestC69_ShoutrrrGivesUp(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	s := serve(t, func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-release
	})
	sink, err := alert.NewShoutrrr(generic(s.URL))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	err = sink.Alert(ctx, model.Alert{Kind: model.AlertTest})
	close(release)
	if err == nil || !strings.Contains(err.Error(), "cancelled") {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}
