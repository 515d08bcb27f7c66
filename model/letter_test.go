package model_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/transmsg/transmsg/model"
)

// deaths is an x-death as a broker writes it, the newest entry first.
func deaths(queues ...string) []any {
	out := make([]any, len(queues))
	for i, q := range queues {
		out[i] = map[string]any{
			"queue": q, "reason": "rejected", "exchange": "ex-" + q, "routing-keys": []any{"key-" + q},
			"count": int64(i + 1), "time": time.Unix(1_700_000_000+int64(i), 0).UTC(),
		}
	}
	return out
}

// rejected is a message as it comes out of the queue "dead".
func rejected(id string, h map[string]any) *model.Rejected {
	m := model.Message{ID: id, Headers: h}
	return &model.Rejected{
		Source: "dead", Exchange: "dlx", RoutingKey: "dlk", Properties: model.EncodeWire(&m), Body: []byte("body"),
	}
}

func TestLetterKnowsTheQueueThatGaveUp(t *testing.T) {
	t.Parallel()
	const rejection = "0190a5b2-7a3e-4c11-8f00-0000000000aa"
	copied := func(more map[string]any) map[string]any {
		h := map[string]any{
			model.HeaderQueue: "pay", model.HeaderExchange: "shop", model.HeaderRoutingKey: "paid",
			model.HeaderCause: model.CauseExhausted, model.HeaderError: "no", model.HeaderAttempts: int64(5),
			model.HeaderRejection: rejection,
		}
		for k, v := range more {
			h[k] = v
		}
		return h
	}
	ladder := map[string]any{model.HeaderQueue: "pay", model.HeaderExchange: "shop", model.HeaderRoutingKey: "paid"}
	ladder["x-death"] = deaths("pay", "pay.retry.5s")
	tests := []struct {
		name                 string
		headers              map[string]any
		queue, exchange, key string
		cause                string
		attempts             int
		count                int64
	}{
		{"nothing tells", nil, "dead", "dlx", "dlk", model.CauseUnknown, 0, 0},
		{"the broker's", map[string]any{"x-death": deaths("pay")}, "pay", "ex-pay", "key-pay", "rejected", 0, 1},
		{
			"a ladder's queue is passed over",
			map[string]any{"x-death": deaths("pay.retry.1m30s", "pay")},
			"pay", "ex-pay", "key-pay", "rejected", 0, 2,
		},
		{
			"a name that only looks like one is not",
			map[string]any{"x-death": deaths("pay.retry.90s", "pay")},
			"pay.retry.90s", "ex-pay.retry.90s", "key-pay.retry.90s", "rejected", 0, 1,
		},
		{"the consumer's", copied(nil), "pay", "shop", "paid", model.CauseExhausted, 5, 0},
		{
			"the consumer's, passed on by a dead-letter queue", copied(map[string]any{"x-death": deaths("dead-1")}),
			"pay", "shop", "paid", model.CauseExhausted, 5, 1,
		},
		{
			"the broker's, after an earlier rejection", copied(map[string]any{"x-death": deaths("pay")}),
			"pay", "shop", "paid", "rejected", 0, 1,
		},
		{"the broker's, on the ladder", ladder, "pay", "shop", "paid", "rejected", 0, 1},
		{"x-death is no array", map[string]any{"x-death": "pay"}, "dead", "dlx", "dlk", model.CauseUnknown, 0, 0},
		{
			"x-death of other types",
			map[string]any{"x-death": []any{"a", map[string]any{"queue": int32(1)}}},
			"dead", "dlx", "dlk", model.CauseUnknown, 0, 0,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := rejected("m", test.headers).Letter("shop")
			got := []any{l.Queue, l.Exchange, l.RoutingKey, l.Cause, l.Attempts, l.Count}
			want := []any{test.queue, test.exchange, test.key, test.cause, test.attempts, test.count}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestLetterIsOnePerRejection: a second delivery of one rejection has its id, and nothing else has.
func TestLetterIsOnePerRejection(t *testing.T) {
	t.Parallel()
	const rejection = "0190a5b2-7a3e-4c11-8f00-0000000000aa"
	ours := map[string]any{model.HeaderRejection: rejection, model.HeaderQueue: "pay"}
	again := map[string]any{model.HeaderRejection: rejection, model.HeaderQueue: "pay", "x-delivery-count": int64(2)}
	a, b := rejected("m", ours).Letter("s"), rejected("m", again).Letter("s")
	if a.ID != rejection || b.ID != rejection {
		t.Errorf("ids %s and %s, want the rejection's", a.ID, b.ID)
	}
	later := map[string]any{model.HeaderRejection: rejection, model.HeaderQueue: "pay", "x-death": deaths("pay")}
	if l := rejected("m", later).Letter("s"); l.ID == rejection {
		t.Error("what the broker gave up later has the id of the earlier rejection: it would be lost")
	}

	died := map[string]any{"x-death": deaths("pay")}
	first := rejected("m", died).Letter("s")
	redelivered := rejected("m", map[string]any{"x-death": deaths("pay"), "x-delivery-count": int64(1)}).Letter("s")
	if first.ID != redelivered.ID {
		t.Error("two deliveries of one rejection have two ids")
	}
	others := map[string]model.DeadLetter{
		"another queue": rejected("m", map[string]any{"x-death": deaths("stock")}).Letter("s"),
		"another id":    rejected("m2", died).Letter("s"),
		"another time": rejected("m", map[string]any{"x-death": []any{map[string]any{
			"queue": "pay", "time": time.Unix(1, 0),
		}}}).Letter("s"),
	}
	body := rejected("m", died)
	body.Body = []byte("other")
	others["another body"] = body.Letter("s")
	for name, l := range others {
		if l.ID == first.ID {
			t.Errorf("%s has the same id", name)
		}
	}
	if a, b := rejected("", died).Letter("s"), rejected("", died).Letter("s"); a.ID == b.ID || a.WireID != nil {
		t.Error("letters without a wire id are merged")
	}
	l := rejected("m", map[string]any{model.HeaderRejection: "no id"}).Letter("s")
	if l.ID == "no id" || len(l.ID) != 36 {
		t.Errorf("the id %q is the header's, which is none", l.ID)
	}
}

func TestReplayKeepsTheMessageAndDropsTheFailure(t *testing.T) {
	t.Parallel()
	h := map[string]any{
		"mine": int64(7), "raw": "\xff\x00", "x-death": deaths("pay", "pay.retry.5s"), "CC": []any{"other"},
		"x-first-death-queue": "pay", "x-delivery-count": int64(3), model.HeaderError: "boom",
		model.HeaderAttempts: int64(4), model.HeaderQueue: "pay", model.HeaderExchange: "shop",
		model.HeaderRoutingKey: "paid", model.HeaderKey: "order-1", model.HeaderRevision: int64(9),
	}
	r := rejected("any \xfe id", h)
	v := r.Properties.View()
	m := model.Message{
		ID: v.ID, Headers: v.Headers, Properties: model.Properties{UserID: "guest", Expiration: "5", Type: "t"},
	}
	r.Properties = model.EncodeWire(&m)
	l := r.Letter("shop")
	if l.Unreplayable != "" || l.Key != "order-1" || string(l.WireID) != "any \xfe id" {
		t.Fatalf("letter %+v", l)
	}
	row, err := model.Replay{}.Row(&l)
	if err != nil {
		t.Fatal(err)
	}
	if !row.IsReplay() || row.Exchange != "" || row.RoutingKey != "pay" || row.Service != "shop" ||
		row.MessageKey != "order-1" {
		t.Errorf("row %+v", row)
	}
	sent, err := row.Message()
	if err != nil {
		t.Fatal(err)
	}
	want := model.Message{
		ID: "any \xfe id", Key: "order-1", RoutingKey: "pay", Body: []byte("body"),
		Properties: model.Properties{Type: "t"},
		Headers: map[string]any{
			"mine": int64(7), "raw": "\xff\x00", model.HeaderQueue: "pay", model.HeaderExchange: "shop",
			model.HeaderRoutingKey: "paid", model.HeaderKey: "order-1", model.HeaderRevision: int64(9),
			model.HeaderReplays: int64(1), model.HeaderReplayOf: l.ID,
			model.HeaderDeaths: "pay: rejected, 1 times, first at 2023-11-14T22:13:20Z; " +
				"pay.retry.5s: rejected, 2 times, first at 2023-11-14T22:13:21Z",
		},
	}
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}

	// Given up again: parked, and it knows where it came from.
	back := model.Rejected{Source: "dead", Properties: model.EncodeWire(&sent), Body: sent.Body}
	p := back.Letter("shop")
	if p.Status != model.LetterParked || p.Parent != l.ID || p.Replays != 1 || p.Queue != "pay" {
		t.Errorf("given up again: %+v", p)
	}

	row, err = model.Replay{ToExchange: true, AsNew: true}.Row(&l)
	if err != nil {
		t.Fatal(err)
	}
	sent, err = row.Message()
	if err != nil || sent.ID != row.ID || row.Exchange != "shop" || row.RoutingKey != "paid" {
		t.Errorf("as new, to the exchange: %+v, id %q, %v", row, sent.ID, err)
	}
}

func TestLetterSaysWhyItCannotBeReplayed(t *testing.T) {
	t.Parallel()
	twice := model.WireProperties("\x20\x00\x00\x00\x00\x06\x01aV\x01aV")
	for name, c := range map[string]struct {
		r    model.Rejected
		want string
	}{
		"name twice": {model.Rejected{Source: "dead", Properties: twice}, `header "a" is there twice`},
		"queue":      {model.Rejected{Source: "de\xffad", Properties: model.WireProperties{0, 0}}, "not UTF-8"},
		"headers": {
			*rejected("m", map[string]any{"h": strings.Repeat("x", model.DefaultFrameMax)}), "one frame",
		},
		"nothing": {model.Rejected{Source: "dead"}, "cut off"},
	} {
		l := c.r.Letter("s")
		if !strings.Contains(l.Unreplayable, c.want) {
			t.Errorf("%s: %q, want it to say %q", name, l.Unreplayable, c.want)
		}
		if _, err := (model.Replay{}).Row(&l); err == nil {
			t.Errorf("%s: a row all the same", name)
		}
	}
}

func TestReplayRowsAreNotEdited(t *testing.T) {
	t.Parallel()
	l := rejected("m", nil).Letter("s")
	row, err := model.Replay{}.Row(&l)
	if err != nil {
		t.Fatal(err)
	}
	key := "k"
	if err := (&model.Edit{RoutingKey: &key}).Apply(&row); err == nil || !strings.Contains(err.Error(), "dead letter") {
		t.Errorf("edit: %v", err)
	}
	if !model.SameContent(&row, &row) {
		t.Error("a replay's row is not the same as itself")
	}
}
