package management_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/management"
)

// world is a virtual host of the shared broker with a way to both of its APIs.
type world struct {
	t       *testing.T
	vhost   string
	client  *amqptest.Client
	channel *amqp.Channel
	api     *management.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	broker := amqptest.VHost(t)
	u, err := url.Parse(broker)
	if err != nil {
		t.Fatal(err)
	}
	base, user, err := amqptest.API()
	if err != nil {
		t.Fatal(err)
	}
	api, err := management.New(management.Config{URL: strings.Replace(base, "://", "://"+user.String()+"@", 1)})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := amqp.Dial(broker)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { api.Close(); conn.Close() })
	channel, err := conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, strings.TrimPrefix(u.Path, "/"), amqptest.Connect(t, broker), channel, api}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// bind binds a queue, or an exchange, with arguments.
func (w *world) bind(toExchange bool, destination, source, key string, args amqp.Table) {
	w.t.Helper()
	if toExchange {
		w.must(w.channel.ExchangeBind(destination, key, source, false, args))
	} else {
		w.must(w.channel.QueueBind(destination, key, source, false, args))
	}
}

func (w *world) reach(routes *management.Routes, exchange, key string, headers amqp.Table) management.Reach {
	w.t.Helper()
	return routes.Reach(w.t.Context(), exchange, key, func() (map[string]any, error) {
		out := map[string]any{}
		for name, v := range headers {
			if inner, ok := v.(amqp.Table); ok {
				v = map[string]any(inner)
			}
			out[name] = v
		}
		return out, nil
	})
}

var (
	kinds  = []string{"direct", "topic", "fanout", "headers"}
	keys   = []string{"", ".", "a", "b", "a.b", "a.b.c", "a..b", "b.a", "a.a.a.b"}
	tests  = strings.Split(" # * a a.b a.* a.# #.b *.b #.a.# *.# #.* a.#.b a.*.b . ..", " ") // "" too
	values = []any{"1", "x", "undefined", true, false, int64(1), int32(1), int64(2), 1.5, nil, amqp.Table{"n": "1"}}
	others = append([]any{[]byte("x"), []byte("undefined"), amqp.Table{"n": "2"}}, values...) // of headers alone
	names  = []string{"a", "b", "c", "x-d"}
)

func pick[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

func table(r *rand.Rand, values []any) amqp.Table {
	out := amqp.Table{}
	for _, name := range names {
		if r.IntN(2) == 0 {
			out[name] = pick(r, values)
		}
	}
	return out
}

// A message's way by the bindings is the way it takes: random exchanges of each kind, bound to
// each other and to queues, and the broker itself as the judge.
func TestF2_ReachIsWhereTheBrokerRoutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const queues, exchanges, messages = 8, 12, 400
	for i := range queues {
		w.must(w.client.Queue(amqptest.QueueSpec{Name: fmt.Sprint("q", i)}))
	}
	kindOf := map[string]string{}
	for i := range exchanges {
		name := fmt.Sprint("e/", i) // a name that a path must escape
		kindOf[name] = kinds[i%len(kinds)]
		w.must(w.client.Exchange(name, kindOf[name], nil))
	}
	for range 60 {
		from := fmt.Sprint("e/", r.IntN(exchanges))
		var args amqp.Table
		if kindOf[from] == "headers" {
			args = table(r, values)
			if x := pick(r, []string{"", "all", "any", "all-with-x", "any-with-x"}); x != "" {
				args["x-match"] = x
			}
		}
		if toExchange := r.IntN(3) == 0; toExchange {
			w.bind(true, fmt.Sprint("e/", r.IntN(exchanges)), from, pick(r, tests), args)
		} else {
			w.bind(false, fmt.Sprint("q", r.IntN(queues)), from, pick(r, tests), args)
		}
	}
	said, routes := map[string]management.Reach{}, w.api.Routes(w.vhost)
	for i := range messages {
		id, exchange := fmt.Sprint(i), fmt.Sprint("e/", r.IntN(exchanges))
		key, headers := pick(r, keys), table(r, others)
		said[id] = w.reach(routes, exchange, key, headers)
		w.must(w.client.Publish(t.Context(), exchange, key, amqp.Publishing{MessageId: id, Headers: headers}))
	}
	judge(t, w, queues, said)
}

func judge(t *testing.T, w *world, queues int, said map[string]management.Reach) {
	t.Helper()
	went := map[string][]string{}
	for i := range queues {
		name := fmt.Sprint("q", i)
		deliveries, err := w.client.Drain(name)
		w.must(err)
		for _, d := range deliveries {
			went[d.MessageId] = append(went[d.MessageId], name)
		}
	}
	var several, none, unknown int
	for id, r := range said {
		switch {
		case len(r.Unknown) > 0:
			unknown++
			for _, q := range r.Queues {
				if !slices.Contains(went[id], q) {
					t.Errorf("message %s: %v, but it went to %v", id, r, went[id])
				}
			}
		case !slices.Equal(r.Queues, went[id]):
			t.Errorf("message %s: %v, but it went to %v", id, r, went[id])
		case len(r.Queues) == 0:
			none++
		default:
			several++
		}
	}
	t.Logf("of %d messages %d go somewhere, %d nowhere, %d is not sure", len(said), several, none, unknown)
	if several == 0 || none == 0 {
		t.Errorf("%d somewhere, %d nowhere, %d unknown of %d: this proves little", several, none, unknown, len(said))
	}
}

// What cannot be decided is said in words, and never as a number.
func TestF2_WhatIsUnknownIsSaidInWords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, q := range []string{"a", "b"} {
		w.must(w.client.Queue(amqptest.QueueSpec{Name: q}))
	}
	w.must(w.client.Exchange("plain", "fanout", nil))
	w.must(w.client.Exchange("with-alternate", "direct", amqp.Table{"alternate-exchange": "plain"}))
	w.must(w.client.Exchange("typed", "headers", nil))
	w.bind(false, "a", "plain", "", nil)
	w.bind(false, "a", "with-alternate", "a", nil)
	w.bind(false, "a", "typed", "", amqp.Table{"n": int64(1)})
	w.bind(false, "b", "typed", "", amqp.Table{"s": "1"})
	w.bind(true, "with-alternate", "plain", "", nil)
	headers := amqp.Table{"n": int64(1), "s": "1"}
	for _, c := range []struct{ exchange, key, want string }{
		{"with-alternate", "a", `1 queue: "a"`},
		{"with-alternate", "b", `unknown: no binding of exchange "with-alternate" takes the message, and its ` +
			`alternate exchange "plain" is not followed`},
		{"plain", "b", `at least 1 queue: "a"; how many others is unknown: no binding of exchange "with-alternate" ` +
			`takes the message, and its alternate exchange "plain" is not followed`},
		{"typed", "", `at least 1 queue: "b"; how many others is unknown: exchange "typed" compares headers whose ` +
			`types the management API does not tell`},
		{"gone", "a", fmt.Sprintf(`unknown: virtual host %q has no exchange "gone"`, w.vhost)},
	} {
		if got := w.reach(w.api.Routes(w.vhost), c.exchange, c.key, headers).String(); got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.exchange, c.key, got, c.want)
		}
	}
	unread := w.api.Routes(w.vhost).Reach(t.Context(), "typed", "", func() (map[string]any, error) {
		return nil, errors.New("gone by now")
	})
	if got := unread.String(); !strings.HasPrefix(got, "unknown: ") || !strings.Contains(got, "gone by now") {
		t.Errorf("headers that cannot be read: %s", got)
	}
}

// An exchange kind of a plugin decides by itself. The shared broker has no such plugin, so its
// API is played here.
func TestF2_APluginsKindIsNotGuessed(t *testing.T) {
	t.Parallel()
	for kind, want := range map[string]string{
		"x-consistent-hash": `unknown: exchange "e" is of kind x-consistent-hash, which decides by itself`,
		"fanout":            `1 queue: "q"`,
	} {
		api := played(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/bindings/source") {
				fmt.Fprint(w, `[{"source":"e","destination":"q","destination_type":"queue","routing_key":"1"}]`)
				return
			}
			fmt.Fprintf(w, `{"name":"e","type":%q,"arguments":{}}`, kind)
		})
		if got := api.Routes("/").Reach(t.Context(), "e", "k", nil).String(); got != want {
			t.Errorf("%s: %s, want %s", kind, got, want)
		}
	}
}

// played is a client of a management API that answers as told.
func played(t *testing.T, answer http.HandlerFunc) *management.Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	api, err := management.New(management.Config{
		URL: strings.Replace(server.URL, "://", "://reader:s3cret-canary@", 1),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	return api
}

// An API that does not answer well is asked once, and makes every number unknown.
func TestF2_AnAPIThatFailsIsNoZero(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"login": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
			"tag management",
		},
		"sick": {
			func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "sick", http.StatusServiceUnavailable) },
			`503 Service Unavailable: "sick\n"`,
		},
		"redirect": {
			func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/x", http.StatusFound) },
			"302 Found",
		},
		"a page": {
			func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
			"not that of a management API",
		},
		"cut": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			api := played(t, func(w http.ResponseWriter, r *http.Request) {
				if user, password, _ := r.BasicAuth(); user != "reader" || password != "s3cret-canary" {
					t.Errorf("login %q %q", user, password)
				}
				asked.Add(1)
				c.answer(w, r)
			})
			routes := api.Routes("/")
			for range 2 {
				got := routes.Reach(t.Context(), "e", "k", nil).String()
				if !strings.HasPrefix(got, "unknown: management API: GET /api/exchanges/%2F/e: ") ||
					!strings.Contains(got, c.want) || strings.Contains(got, "canary") {
					t.Errorf("%s, want %s", got, c.want)
				}
			}
			if n := asked.Load(); n > 2 { // the transport repeats a GET on a connection that was cut
				t.Errorf("asked %d times", n)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for u, want := range map[string]string{
		"amqp://u:p4ssword@h":          `scheme "amqp" must be http or https`,
		"h:15672":                      "must be http or https",
		"http://h:15672":               "no user",
		"http://u:p4ssword@":           "no host",
		"http://u:p4ssword@h?x=1":      "percent-encode",
		"http://u:p4ssword%zz@h:15672": "cannot be read",
	} {
		if _, err := management.New(management.Config{URL: u}); err == nil ||
			!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "p4ssword") {
			t.Errorf("%s: %v, want %s", u, err, want)
		}
	}
	if _, err := management.New(management.Config{URL: "http://u:p@h", Timeout: -1}); err == nil {
		t.Error("a negative timeout is taken")
	}
}

// A request ends with its context, and by its own timeout.
func TestGetIsBounded(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-end }))
	t.Cleanup(func() { close(end); server.Close() })
	api, err := management.New(management.Config{URL: strings.Replace(server.URL, "://", "://u:p@", 1), Timeout: 1e7})
	if err != nil {
		t.Fatal(err)
	}
	var out any
	err = api.Get(t.Context(), &out, "whoami")
	if err == nil || !strings.Contains(err.Error(), "no answer within 10ms") {
		t.Errorf("a silent API: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := api.Get(ctx, &out, "whoami"); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled request: %v", err)
	}
}
