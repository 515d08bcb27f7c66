package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/amqptest"
	"github.com/transmsg/transmsg/internal/logtest"
)

// F2: a replay through an exchange, and show, say which queues the messages would reach, where
// that can be known, and else that it is unknown.
func TestF2_AReplaySaysWhichQueuesItReaches(t *testing.T) {
	t.Parallel()
	store, broker := migrated(t), amqptest.VHost(t)
	c := amqptest.Connect(t, broker)
	for name, kind := range map[string]string{"orders": "topic", "audit": "fanout", "by-headers": "headers"} {
		if err := c.Exchange(name, kind, nil); err != nil {
			t.Fatal(err)
		}
	}
	const id = "01890000-0000-7000-8000-00000000000%d"
	var in strings.Builder
	for i, exchange := range []string{"orders", "orders", "by-headers"} {
		fmt.Fprintf(&in, "{\"id\":%q,\"exchange\":%q,\"routing_key\":\"order.paid\",\"headers\":{\"kind\":\"a\"}}\n",
			fmt.Sprintf(id, i), exchange)
	}
	var out, errs logtest.Buffer
	run(t.Context(), []string{
		"publish", "--jsonl", "-", "--amqp", broker, "--store", store, "--service", "shop", "--max-attempts", "1",
		"--min-dead-age", "0",
	}, strings.NewReader(in.String()), &out, &errs)
	if n := listed(t, store); n != 3 {
		t.Fatalf("%d rows, want 3: %s", n, errs.String())
	}
	bindAfterwards(t, c)
	api := managementFlags(t, broker)
	orders := `exchange "orders", routing key "order.paid" reaches: 3 queues: "a", "b", "c"` + "\n"
	headers := `exchange "by-headers", routing key "order.paid" reaches: 1 queue: "a"; by the headers of ` +
		fmt.Sprintf(id, 2) + "\n"
	code, out1, errs1 := runIn(t, append([]string{"messages", "replay", "--all", "--store", store}, api...)...)
	if code != 0 || strings.Count(out1, orders) != 1 || strings.Count(out1, headers) != 1 {
		t.Errorf("replay: exit %d: %s%s", code, out1, errs1)
	}
	code, out1, errs1 = runIn(t, append([]string{"messages", "show", fmt.Sprintf(id, 0), "--store", store}, api...)...)
	if code != 0 || !strings.Contains(out1, `3 queues: "a", "b", "c"`) {
		t.Errorf("show: exit %d: %s%s", code, out1, errs1)
	}
	unknownReach(t, store, id)
	var done jsonAct
	code, out1, errs1 = runIn(t, append([]string{
		"messages", "replay", "--exchange", "orders", "--yes", "--json", "--store", store,
	}, api...)...)
	if err := json.Unmarshal([]byte(out1), &done); code != 0 || err != nil || done.Messages != 2 ||
		len(done.Reach) != 1 || done.Reach[0].Queues == nil || *done.Reach[0].Queues != 3 {
		t.Errorf("replay --yes: exit %d: %v: %s%s", code, err, out1, errs1)
	}
}

// bindAfterwards lets orders reach three queues, one of them behind another exchange.
func bindAfterwards(t *testing.T, c *amqptest.Client) {
	t.Helper()
	for _, b := range [][3]string{
		{"a", "orders", "order.*"},
		{"b", "orders", "#"},
		{"c", "audit", ""},
		{"d", "orders", "order.sent"},
		{"a", "by-headers", ""},
	} {
		if err := c.Queue(amqptest.QueueSpec{Name: b[0]}); err != nil {
			t.Fatal(err)
		}
		if err := c.Bind(b[0], b[1], b[2]); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.BindExchange("audit", "orders", "*.paid"); err != nil {
		t.Fatal(err)
	}
}

// managementFlags are the shared broker's, for one of its virtual hosts.
func managementFlags(t *testing.T, broker string) []string {
	t.Helper()
	base, user, err := amqptest.API()
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(broker)
	if err != nil {
		t.Fatal(err)
	}
	return []string{
		"--management", strings.Replace(base, "://", "://"+user.String()+"@", 1),
		"--management-vhost", strings.TrimPrefix(u.Path, "/"),
	}
}

// unknownReach has the cases in which nothing is known: each says so, and none says 0.
func unknownReach(t *testing.T, store, id string) {
	t.Helper()
	for name, c := range map[string]struct {
		flags []string
		want  string
	}{
		"not given": {nil, "unknown: AMQP does not tell; give --management"},
		"unreachable": {
			[]string{"--management", "http://u:" + canary + "@127.0.0.1:1"},
			"unknown: management API: GET /api/exchanges/",
		},
	} {
		ask := append([]string{"--json", "--store", store}, c.flags...)
		code, out, errs := runIn(t, append([]string{"messages", "replay", "--exchange", "orders"}, ask...)...)
		if code != 0 || !strings.Contains(out, `"queues":null,"names":[],"text":"`+c.want) {
			t.Errorf("%s: replay: exit %d: %s%s", name, code, out, errs)
		}
		if strings.Contains(out+errs, canary) {
			t.Errorf("%s: the password is shown: %s%s", name, out, errs)
		}
		code, out, errs = runIn(t, append([]string{"messages", "show", fmt.Sprintf(id, 0)}, ask...)...)
		if code != 0 || !strings.Contains(out, `"queues":null,"names":[],"text":"`+c.want) {
			t.Errorf("%s: show: exit %d: %s%s", name, code, out, errs)
		}
	}
	for _, flags := range [][]string{
		{"--management", "amqp://u:p@h"},
		{"--management", "http://h:15672"},
		{"--management", "http://u:p@h", "--management-tls-server-name", "h"},
		{"--management", "http://u:p@h", "--management-vhost="},
		{"--management", "http://u:p@h", "--management-file", "/nowhere"},
	} {
		code, out, errs := runIn(t, append([]string{"messages", "replay", "--all", "--store", store}, flags...)...)
		if code != 2 || !strings.Contains(errs, "--management") {
			t.Errorf("%v: exit %d, want 2: %s%s", flags, code, out, errs)
		}
	}
}
