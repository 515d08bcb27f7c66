package alert_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/transmsg/transmsg/alert"
	"github.com/transmsg/transmsg/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dead() model.Alert {
	return model.Alert{
		Kind: model.AlertDead, Service: "orders", Exchange: "ex", RoutingKey: "k", Code: model.CodeNoRoute,
		Text: "NO_ROUTE", Count: 3, First: time.UnixMilli(1500), Last: time.UnixMilli(61_000), Instance: "one",
		Sample: model.AlertSample{ID: "id-1", Key: "order-7", Attempts: 2}, Command: "transmsg messages list",
	}
}

// request is what a server got.
type request struct {
	header http.Header
	body   []byte
}

func serve(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s
}

func webhook(t *testing.T, cfg alert.WebhookConfig) *alert.WebhookSink {
	t.Helper()
	s, err := alert.NewWebhook(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWebhookPostsTheDocumentedJSONSigned(t *testing.T) {
	t.Parallel()
	got := make(chan request, 2)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- request{r.Header, body}
		w.WriteHeader(http.StatusAccepted)
	})
	secret := []byte("CANARYSECRET")
	signed := webhook(t, alert.WebhookConfig{URL: s.URL + "/hook", Secret: secret})
	if err := signed.Alert(t.Context(), dead()); err != nil {
		t.Fatal(err)
	}
	r := <-got
	a := dead()
	want := `{"version":1,"kind":"dead","service":"orders","exchange":"ex","routing_key":"k","code":"312",` +
		`"text":"NO_ROUTE","count":3,"first":"1970-01-01T00:00:01.500Z","last":"1970-01-01T00:01:01.000Z",` +
		`"sample":{"id":"id-1","key":"order-7","attempts":2},"instance":"one","command":"transmsg messages list",` +
		`"summary":"` + a.String() + `"}`
	if string(r.body) != want {
		t.Errorf("body\n%s\nwant\n%s", r.body, want)
	}
	if ct := r.header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("content type %q", ct)
	}
	signature := r.header.Get(alert.SignatureHeader)
	if err := alert.Verify(secret, signature, r.body, time.Minute); err != nil {
		t.Errorf("signature %q: %v", signature, err)
	}
	// Without a secret there is no signature, and what there is not is left out.
	plain := webhook(t, alert.WebhookConfig{URL: s.URL})
	if err := plain.Alert(t.Context(), model.Alert{Kind: model.AlertTest}); err != nil {
		t.Fatal(err)
	}
	r = <-got
	var fields map[string]any
	if err := json.Unmarshal(r.body, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"first", "last", "sample"} {
		if _, ok := fields[name]; ok {
			t.Errorf("%s is there: %s", name, r.body)
		}
	}
	if _, ok := r.header[http.CanonicalHeaderKey(alert.SignatureHeader)]; ok {
		t.Error("signed without a secret")
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	secret, body := []byte("s"), []byte(`{"a":1}`)
	now := alert.Sign(secret, time.Now(), body)
	for name, tt := range map[string]struct {
		secret []byte
		header string
		body   []byte
		ok     bool
	}{
		"right":         {secret, now, body, true},
		"other secret":  {[]byte("t"), now, body, false},
		"other body":    {secret, now, []byte(`{"a":2}`), false},
		"old":           {secret, alert.Sign(secret, time.Now().Add(-6*time.Minute), body), body, false},
		"from tomorrow": {secret, alert.Sign(secret, time.Now().Add(24*time.Hour), body), body, false},
		"other time":    {secret, strings.Replace(now, "t=", "t=1", 1), body, false},
		"empty":         {secret, "", body, false},
		"cut":           {secret, now[:len(now)-2], body, false},
		"no hex":        {secret, now[:len(now)-2] + "zz", body, false},
	} {
		err := alert.Verify(tt.secret, tt.header, tt.body, 5*time.Minute)
		if (err == nil) != tt.ok || (err != nil && !errors.Is(err, alert.ErrSignature)) {
			t.Errorf("%s: %v, want accepted: %v", name, err, tt.ok)
		}
	}
	// A fixed example, so that the documented form does not drift.
	want := "t=1700000000,v1=b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163"
	if got := alert.Sign([]byte("secret"), time.Unix(1_700_000_000, 0), []byte(`{}`)); got != want {
		t.Errorf("signature %q, want %q", got, want)
	}
}

// Whatever goes wrong, the error tells the kind of failure and no secret.
func TestWebhookErrorsHoldNoSecret(t *testing.T) {
	t.Parallel()
	status := func(code int) string {
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/CANARY")
			http.Error(w, "CANARY "+r.URL.String(), code)
		}).URL
	}
	tlsServer := httptest.NewUnstartedServer(http.NotFoundHandler())
	tlsServer.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	tlsServer.StartTLS()
	t.Cleanup(tlsServer.Close)
	for name, tt := range map[string]struct{ url, want string }{
		"500":          {status(500), "status 500"},
		"redirect":     {status(302), "status 302"},
		"gone":         {status(410), "status 410"},
		"refused":      {"http://127.0.0.1:1", "connection refused"},
		"no such host": {"http://canary.invalid", "cannot be resolved"},
		"certificate":  {tlsServer.URL, "certificate is not trusted"},
	} {
		u, err := url.Parse(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		u.User, u.Path, u.RawQuery = url.UserPassword("u", "CANARYPASS"), "/CANARYPATH", "token=CANARYTOKEN"
		err = webhook(t, alert.WebhookConfig{URL: u.String(), Secret: []byte("CANARYKEY")}).Alert(t.Context(), dead())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, tt.want)
			continue
		}
		if strings.Contains(strings.ToUpper(err.Error()), "CANARY") {
			t.Errorf("%s: the error tells a secret: %v", name, err)
		}
	}
	for _, bad := range []string{
		"", "CANARY", "ftp://u:CANARY@h", "http://u:CANARY@h:bad port/", "https://", "http://[CANARY", "://CANARY",
		"http://h:CANARY/",
	} {
		if _, err := alert.NewWebhook(alert.WebhookConfig{URL: bad}); err == nil ||
			strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%q: %v, want an error without it", bad, err)
		}
	}
}

// C69: a server that never answers is given up with the context.
func TestC69_WebhookGivesUp(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	s := serve(t, func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-release
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	// The client of the caller gets the bound of 5 s; the context is shorter.
	err := webhook(t, alert.WebhookConfig{URL: s.URL, Client: &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true},
	}}).Alert(ctx, dead())
	close(release)
	if err == nil || !strings.Contains(err.Error(), "cancelled") {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}

type sinkFunc func(context.Context, model.Alert) error

func (f sinkFunc) Alert(ctx context.Context, a model.Alert) error { return f(ctx, a) }

func TestMultiAcceptsWhenAllAccept(t *testing.T) {
	t.Parallel()
	var told atomic.Int32
	good := sinkFunc(func(_ context.Context, a model.Alert) error {
		if a.Count == 3 {
			told.Add(1)
		}
		return nil
	})
	errNo := errors.New("sink says no")
	bad := sinkFunc(func(context.Context, model.Alert) error { return errNo })
	panics := sinkFunc(func(context.Context, model.Alert) error { panic("broken") })
	waits := sinkFunc(func(ctx context.Context, _ model.Alert) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if err := (alert.Multi{good, good}).Alert(t.Context(), dead()); err != nil || told.Load() != 2 {
		t.Errorf("%v, %d told; want none and 2", err, told.Load())
	}
	ctx, cancel := context.WithCancel(t.Context())
	told.Store(0)
	all := alert.Multi{waits, bad, panics, sinkFunc(func(ctx context.Context, a model.Alert) error {
		defer cancel() // the one that waits must not keep this one from being told
		return good(ctx, a)
	})}
	err := all.Alert(ctx, dead())
	if !errors.Is(err, errNo) || !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "panicked") ||
		told.Load() != 1 {
		t.Errorf("%v, %d told; want all three causes and 1", err, told.Load())
	}
	if err := (alert.Multi{}).Alert(t.Context(), dead()); err != nil {
		t.Errorf("no sinks: %v", err)
	}
}

func TestLogSink(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := (alert.LogSink{Logger: slog.New(slog.NewTextHandler(&b, nil))}).Alert(t.Context(), dead()); err != nil {
		t.Fatal(err)
	}
	if line := b.String(); !strings.Contains(line, "level=ERROR") || !strings.Contains(line, "alert.id=id-1") {
		t.Errorf("line %q", line)
	}
}

// E10: a service that takes no more for now says so, and for how long.
func TestE10_WebhookThrottles(t *testing.T) {
	t.Parallel()
	inAnHour := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	for name, tt := range map[string]struct {
		status    int
		after     string
		throttles bool
		least     time.Duration
	}{
		"429 with seconds":     {http.StatusTooManyRequests, "37", true, 37 * time.Second},
		"429 without":          {http.StatusTooManyRequests, "", true, 0},
		"429 with nonsense":    {http.StatusTooManyRequests, "-5 soon", true, 0},
		"503 with a date":      {http.StatusServiceUnavailable, inAnHour, true, 59 * time.Minute},
		"503 without":          {http.StatusServiceUnavailable, "", false, 0},
		"500 with Retry-After": {http.StatusInternalServerError, "37", false, 0},
	} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if tt.after != "" {
				w.Header().Set("Retry-After", tt.after)
			}
			w.WriteHeader(tt.status)
		})
		sink, err := alert.NewWebhook(alert.WebhookConfig{URL: s.URL})
		if err != nil {
			t.Fatal(err)
		}
		// As a compensator sees it, also within a Multi.
		var throttled interface{ RetryAfter() time.Duration }
		err = alert.Multi{sink}.Alert(t.Context(), dead())
		if got := errors.As(err, &throttled); err == nil || got != tt.throttles {
			t.Errorf("%s: %v throttles: %v, want %v", name, err, got, tt.throttles)
			continue
		}
		if tt.throttles && (throttled.RetryAfter() < tt.least || throttled.RetryAfter() > tt.least+time.Minute) {
			t.Errorf("%s: to be left alone for %v, want %v", name, throttled.RetryAfter(), tt.least)
		}
	}
}
