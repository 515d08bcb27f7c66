package topology_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/transmsg/transmsg/internal/topologytest"
	"github.com/transmsg/transmsg/topology"
)

type (
	object = topologytest.Object
	edits  = topologytest.Definitions
)

// edited is the good export after an edit.
func edited(t *testing.T, edit func(edits)) *topology.Broker {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", goodName+".json"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := topologytest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	edit(d)
	if text, err = d.Text(); err != nil {
		t.Fatal(err)
	}
	b, err := topology.ReadDefinitions(text, topologytest.VHost)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// says checks that a report has one finding for each text, in which it stands, and nothing else.
func says(t *testing.T, r topology.Report, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !slices.ContainsFunc(r.Findings,
			func(f topology.Finding) bool { return strings.Contains(f.String(), text) }) {
			t.Errorf("no finding says %q:\n%s", text, lines(r))
		}
	}
	if len(r.Findings) != len(texts) || len(r.Unseen) > 0 {
		t.Errorf("%d findings, want %d:\n%s", len(r.Findings), len(texts), lines(r))
	}
}

// F6: what others bound behind our exchanges takes a confirmed message and loses it. Each kind is named alone, and
// its harmless sister is not.
func TestF6_QueuesThatLoseInSilenceAreNamed(t *testing.T) {
	t.Parallel()
	const vhost = topologytest.VHost
	ttl := func(more object) object {
		more["x-message-ttl"] = 60_000
		return more
	}
	for _, tc := range []struct {
		name, exchange string
		arguments      object
		fields         object
		says           string // "": nothing
	}{
		{
			"drops, behind one", "near",
			object{"x-max-length": 2},
			nil,
			"queue bound: max-length 2 with overflow drop-head",
		},
		{
			"drops, behind two", "far",
			object{"x-max-length": 2},
			nil,
			"queue bound: max-length 2 with overflow drop-head",
		},
		{
			"refuses, with dead letters", "elsewhere",
			object{"x-max-length": 2, "x-overflow": "reject-publish-dlx"},
			nil, "",
		},
		{
			"drops on quorum what classic refuses", "far",
			object{
				"x-max-length": 2, "x-overflow": "reject-publish-dlx", "x-queue-type": "quorum",
				"x-delivery-limit": 1000, "x-dead-letter-exchange": "dead-letters",
			},
			nil,
			"queue bound: max-length 2 with overflow reject-publish-dlx drops",
		},
		{
			"too old, no dead letters", "orders", ttl(object{}), nil,
			"queue bound: message-ttl 60000 without a dead-letter exchange",
		},
		{
			"too old, behind two", "far", ttl(object{}), nil,
			"queue bound: message-ttl 60000 without a dead-letter exchange",
		},
		{"too old, kept", "orders", ttl(object{"x-dead-letter-exchange": "dead-letters"}), nil, ""},
		{
			"too old, to an exchange that is not there", "orders", ttl(object{"x-dead-letter-exchange": "typo"}), nil,
			"queue bound: dead-letter exchange typo is missing: what a consumer rejects is lost, and message-ttl " +
				"60000 drops",
		},
		{
			"rejected, to an exchange that is not there", "orders",
			object{"x-dead-letter-exchange": "typo"},
			nil,
			"queue bound: dead-letter exchange typo is missing: what a consumer rejects is lost",
		},
		{
			"too old, to a queue by its name", "orders",
			ttl(object{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders.all"}), nil, "",
		},
		{
			"too old, to the default exchange by the message's " +
				"key", "orders", ttl(object{"x-dead-letter-exchange": ""}), nil,
			"queue bound: no queue takes what dead-letter exchange (default) gets",
		},
		{
			"to an exchange that has no place for the key", "orders",
			object{"x-dead-letter-exchange": "amq.direct", "x-dead-letter-routing-key": "none"},
			nil,
			`queue bound: no queue takes what dead-letter exchange amq.direct gets with key "none"`,
		},
		{
			"given back too often", "orders",
			object{"x-queue-type": "quorum", "x-delivery-limit": 3},
			nil,
			"queue bound: delivery-limit 3 without a dead-letter exchange drops confirmed messages",
		},
		{"transient", "orders", object{}, object{"durable": false}, "queue bound: is transient"},
		{"transient, behind two", "far", object{}, object{"durable": false}, "queue bound: is transient"},
		{
			"for one consumer", "orders",
			object{},
			object{"auto_delete": true},
			"queue bound: is deleted with its messages",
		},
		{"exclusive", "orders", object{}, object{"exclusive": true}, "queue bound: is exclusive"},
		{"transient, of another exchange", "elsewhere", object{}, object{"durable": false}, ""},
		{
			"dead letters, transient", "dead-letters",
			object{},
			object{"durable": false},
			"dead-letter queue bound: is transient",
		},
		{
			"dead letters, too old", "dead-letters",
			object{"x-message-ttl": 5},
			nil,
			"dead-letter queue bound: message-ttl 5 loses",
		},
		{
			"dead letters, limited", "dead-letters",
			object{"x-max-length": 5, "x-overflow": "reject-publish"},
			nil,
			"dead-letter queue bound: max-length 5 loses dead letters; remove it, whatever the overflow",
		},
		{
			"a stream that forgets", "orders",
			object{"x-queue-type": "stream", "x-max-age": "1D"},
			nil,
			"queue bound: max-age 1D on a stream drops its oldest messages",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := edited(t, func(d edits) {
				d.Exchange(vhost, "near", "orders")
				d.Exchange(vhost, "far", "near")
				d.Bind(vhost, "far", "near", "exchange") // a circle
				d.Queue(vhost, "bound", tc.exchange, tc.arguments)
				if tc.fields != nil {
					d.Set("queues", object{"name": "bound"}, tc.fields)
				}
			})
			var want []string
			if tc.says != "" {
				want = []string{tc.says}
			}
			says(t, topology.Check(b, goodPlan(t), topology.ViewAll), want...)
		})
	}
}

// C10: policies and operator policies drop as arguments do, and a queue's own reject-publish holds against both.
func TestC10_LimitsThatDropAreNamed(t *testing.T) {
	t.Parallel()
	const vhost = topologytest.VHost
	limit := func(value int) func(edits) {
		return func(d edits) {
			d.Add("parameters", object{
				"vhost": vhost, "component": "operator_policy", "name": "limit", "value": object{
					"pattern": "^others", "apply-to": "all", "priority": 0, "definition": object{"max-length": value},
				},
			})
			d.Queue(vhost, "others", "orders", object{})
		}
	}
	says(t, topology.Check(edited(t, limit(7)), goodPlan(t), topology.ViewAll),
		"queue others: max-length 7 with overflow drop-head drops confirmed messages")
	says(t, topology.Check(edited(t, func(d edits) {
		limit(7)(d)
		d.Argument("queues", "others", "x-max-length", 3) // the smaller counts
	}), goodPlan(t), topology.ViewAll), "queue others: max-length 3 with overflow drop-head drops confirmed messages")
	says(t, topology.Check(edited(t, func(d edits) { // streams and classic queues have policies of their own
		d.AddPolicy(vhost, "limit", "^others", "quorum_queues", object{"max-length": 3})
		d.Queue(vhost, "others", "orders", object{})
	}), goodPlan(t), topology.ViewAll))
	says(t, topology.Check(edited(t, func(d edits) {
		d.AddPolicy(vhost, "limit", "^orders", "all", object{
			"max-length": 3, "overflow": "reject-publish", "dead-letter-exchange": "dead-letters",
			"dead-letter-strategy": "at-least-once",
		})
		d.Drop("queues", object{"name": "orders.all.retry.1s"})
		d.Drop("queues", object{"name": "orders.all.retry.30s"})
	}), goodPlan(t), topology.ViewPublisher)) // one queue that refuses, alone
}

// C55: whoever limits the dead-letter queue itself is told, by any means.
func TestC55_LimitedDeadLetterQueueIsNamed(t *testing.T) {
	t.Parallel()
	b := edited(t, func(d edits) {
		d.Argument("queues", "dead-letters", "x-max-length", 1)
		d.Argument("queues", "dead-letters", "x-overflow", "reject-publish")
		d.AddPolicy(topologytest.VHost, "old", ".*", "queues", object{"expires": 1000, "delivery-limit": 1000})
	})
	r := topology.Check(b, goodPlan(t), topology.ViewAll)
	for _, text := range []string{
		"dead-letter queue dead-letters: max-length is 1, want none (by argument)",
		`dead-letter queue dead-letters: overflow is "reject-publish", want none (by argument)`,
		"dead-letter queue dead-letters: max-length 1 loses dead letters",
		"dead-letter queue dead-letters: expires 1000 deletes the queue",
		"queue orders.all: expires 1000 deletes the queue",
		// Of two policies one alone is in force.
		"queue orders.all: dead-letter-exchange is none, want \"dead-letters\"",
	} {
		if !strings.Contains(lines(r), text) {
			t.Errorf("no finding says %q:\n%s", text, lines(r))
		}
	}
}

// C71: another argument is named with both values; the same number in another width is none.
func TestC71_OtherArgumentsAreNamedWithBothValues(t *testing.T) {
	t.Parallel()
	const step = "orders.all.retry.1s"
	for value, text := range map[any]string{
		1000: "", 1000.0: "", 1001: "message-ttl is 1001, want 1000", "1000": `message-ttl is "1000", want 1000`,
	} {
		b := edited(t, func(d edits) { d.Argument("queues", step, "x-message-ttl", value) })
		r := topology.Check(b, goodPlan(t), topology.ViewAll)
		if text == "" {
			says(t, r)
			continue
		}
		says(t, r, "queue "+step+": "+text)
		if f := r.Findings[0]; f.Want != "1000" || f.Have == "" {
			t.Errorf("have %q and want %q", f.Have, f.Want)
		}
	}
}
