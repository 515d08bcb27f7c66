package model_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/transmsg/transmsg/model"
)

// shortStrings are the fields that AMQP or the table bound to 255 bytes.
func shortStrings() map[string]func(*model.Message) *string {
	return map[string]func(*model.Message) *string{
		"key":              func(m *model.Message) *string { return &m.Key },
		"exchange":         func(m *model.Message) *string { return &m.Exchange },
		"routing_key":      func(m *model.Message) *string { return &m.RoutingKey },
		"content_type":     func(m *model.Message) *string { return &m.Properties.ContentType },
		"content_encoding": func(m *model.Message) *string { return &m.Properties.ContentEncoding },
		"correlation_id":   func(m *model.Message) *string { return &m.Properties.CorrelationID },
		"reply_to":         func(m *model.Message) *string { return &m.Properties.ReplyTo },
		"type":             func(m *model.Message) *string { return &m.Properties.Type },
		"app_id":           func(m *model.Message) *string { return &m.Properties.AppID },
	}
}

func TestC16_ShortStringsAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	for field, at := range shortStrings() {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			try := func(s string) error {
				m := model.Message{Exchange: "x", RoutingKey: "q"}
				*at(&m) = s
				_, err := model.Normalize(m, testNow(), model.Limits{})
				return err
			}
			for _, ok := range []string{
				"", strings.Repeat("k", 255), strings.Repeat("é", 127) + "k", "\x01\t\x7f\u2028", "\ufffd",
			} {
				if err := try(ok); err != nil {
					t.Errorf("%.20q: got %v, want no error", ok, err)
				}
			}
			wantInvalid(t, try(strings.Repeat("k", 256)), field, "256 bytes", "255")
			wantInvalid(t, try(strings.Repeat("😀", 86)), field, "344 bytes", "255")
			wantInvalid(t, try("a\x00b"), field, "NUL", `"a\x00b"`)
			wantInvalid(t, try("a\xff"), field, "UTF-8", `"a\xff"`)
			wantInvalid(t, try("\xed\xa0\x80"), field, "UTF-8") // a surrogate
		})
	}
}

func TestC16_HeaderNamesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	at := func(name string) error {
		_, err := model.NormalizeHeaders(map[string]any{name: 1})
		return err
	}
	if err := at(strings.Repeat("n", 255)); err != nil {
		t.Error(err)
	}
	long := strings.Repeat("n", 256)
	wantInvalid(t, at(long), `headers["`+long[:60]+`"]`, "256 bytes", "255")
	wantInvalid(t, at("a\x00"), `headers["a\x00"]`, "NUL")
	wantInvalid(t, at("a\xff"), `headers["a\xff"]`, "UTF-8")
	_, err := model.NormalizeHeaders(map[string]any{"t": map[string]any{long: 1}})
	wantInvalid(t, err, `headers["t"]`, "table field", "256 bytes")
	_, err = model.NormalizeHeaders(map[string]any{"t": []map[string]any{{"a\x00": 1}}})
	wantInvalid(t, err, `headers["t"]`, "element 0", "NUL")
}

func TestC16_MessageIDIsACanonicalUUID(t *testing.T) {
	t.Parallel()
	id := "0190a5b2-7a3e-7c11-8f00-00000000000a"
	if got := normalize(t, model.Message{RoutingKey: "q", ID: id}); got.ID != id {
		t.Errorf("got %s, want %s", got.ID, id)
	}
	for _, bad := range []string{
		strings.ToUpper(id), "{" + id + "}", "urn:uuid:" + id, strings.ReplaceAll(id, "-", ""), id + " ", id[1:],
		"00000000-0000-0000-0000-000000000000", "0190a5b2-7a3e-7c11-8f00-00000000000g", strings.Repeat("x", 256), "1",
		"0190a5b27-a3e-7c11-8f00-00000000000a",
	} {
		_, err := model.Normalize(model.Message{RoutingKey: "q", ID: bad}, testNow(), model.Limits{})
		wantInvalid(t, err, "id", "UUID", bad[:1])
	}
}

func TestC23_PropertiesThatCloseAChannelAreRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		p     model.Properties
		field string // "" passes
		says  string
	}{
		{"no expiration", model.Properties{}, "", ""},
		{"expiration 0", model.Properties{Expiration: "0"}, "", ""},
		{"expiration padded", model.Properties{Expiration: "007"}, "", ""},
		{"expiration largest", model.Properties{Expiration: "4294967295"}, "", ""},
		{"expiration above", model.Properties{Expiration: "4294967296"}, "expiration", "4294967295"},
		{"expiration far above", model.Properties{Expiration: strings.Repeat("9", 40)}, "expiration", "4294967295"},
		{"expiration unit", model.Properties{Expiration: "1h"}, "expiration", `"1h"`},
		{"expiration negative", model.Properties{Expiration: "-1"}, "expiration", `"-1"`},
		{"expiration fraction", model.Properties{Expiration: "1.5"}, "expiration", `"1.5"`},
		{"expiration plus", model.Properties{Expiration: "+5"}, "expiration", `"+5"`},
		{"expiration space", model.Properties{Expiration: " 5"}, "expiration", `" 5"`},
		{"expiration hex", model.Properties{Expiration: "0x5"}, "expiration", `"0x5"`},
		{"expiration underscore", model.Properties{Expiration: "1_000"}, "expiration", `"1_000"`},
		{"expiration digits of another script", model.Properties{Expiration: "٣"}, "expiration", "decimal"},
		{"expiration of 256 zeros", model.Properties{Expiration: strings.Repeat("0", 256)}, "expiration", "256 bytes"},
		{"user id", model.Properties{UserID: "guest"}, "user_id", "header"},
		{"direct reply-to", model.Properties{ReplyTo: "amq.rabbitmq.reply-to"}, "reply_to", "direct reply-to"},
		{"reply-to token", model.Properties{ReplyTo: "amq.rabbitmq.reply-to.abc"}, "reply_to", "direct reply-to"},
		{"timestamp 1970", model.Properties{Timestamp: time.Unix(0, 0)}, "", ""},
		{"timestamp before 1970", model.Properties{Timestamp: time.Unix(-1, 0)}, "timestamp", "1969-12-31T23:59:59Z"},
		{"timestamp just before 1970", model.Properties{Timestamp: time.Unix(0, -1)}, "timestamp", "1970"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := model.Normalize(model.Message{Exchange: "x", Properties: tc.p}, testNow(), model.Limits{})
			if tc.field != "" {
				wantInvalid(t, err, tc.field, tc.says)
			} else if err != nil {
				t.Errorf("got %v, want no error", err)
			}
		})
	}
}

func TestC23_AddressesThatCloseAConnectionAreRefused(t *testing.T) {
	t.Parallel()
	token := "amq.rabbitmq.reply-to.g1h2AA5yZXBseUA.abc=="
	_, err := model.Normalize(model.Message{RoutingKey: token}, testNow(), model.Limits{})
	wantInvalid(t, err, "routing_key", "direct reply-to", token)
	normalize(t, model.Message{Exchange: "x", RoutingKey: token}) // an ordinary key there
	for _, exchange := range []string{"a\rb", "a\n", "\r\n"} {
		_, err := model.Normalize(model.Message{Exchange: exchange}, testNow(), model.Limits{})
		wantInvalid(t, err, "exchange", "CR or LF")
	}
}

func TestC23_ReservedHeadersAreRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"CC", "BCC", "x-transmsg-id", "X-Transmsg-", "transmsg-id", "Transmsg-Revision"} {
		headers := map[string]any{name: []string{"q"}}
		_, err := model.Normalize(model.Message{RoutingKey: "q", Headers: headers}, testNow(), model.Limits{})
		wantInvalid(t, err, `headers["`+name+`"]`, "is refused")
		// The same in a row that was written by hand.
		m := normalize(t, model.Message{RoutingKey: "q"})
		m.Headers = map[string]any{name: []any{"q"}}
		wantInvalid(t, model.Check(&m, model.Limits{}), `headers["`+name+`"]`, "is refused")
	}
	others := map[string]any{"cc": "q", "x-transmsg": 1, "t": map[string]any{"CC": "q"}}
	normalize(t, model.Message{RoutingKey: "q", Headers: others})
}

func TestC22_HeadersFitOneFrame(t *testing.T) {
	t.Parallel()
	big := func(n int, l model.Limits) error {
		m := model.Message{RoutingKey: "q", Headers: map[string]any{"big": strings.Repeat("x", n)}}
		_, err := model.Normalize(m, testNow(), l)
		return err
	}
	if err := big(130_000, model.Limits{}); err != nil {
		t.Errorf("130,000: got %v, want no error", err)
	}
	wantInvalid(t, big(140_000, model.Limits{}), "headers", "bytes encoded", "130944", "131072")
	edge := largestHeader(t)
	if err := big(edge, model.Limits{}); err != nil {
		t.Errorf("%d: got %v, want no error", edge, err)
	}
	wantInvalid(t, big(edge+1, model.Limits{}), "headers", "130945")
	wantInvalid(t, big(5000, model.Limits{FrameMax: 4096}), "headers", "3968", "4096")
	if err := big(140_000, model.Limits{FrameMax: 1 << 20}); err != nil {
		t.Errorf("larger frame: got %v, want no error", err)
	}
}

func TestC18_BodyIsBounded(t *testing.T) {
	t.Parallel()
	size := func(n int, l model.Limits) error {
		_, err := model.Normalize(model.Message{RoutingKey: "q", Body: make([]byte, n)}, testNow(), l)
		return err
	}
	for _, tc := range []struct{ limit, bound int }{{0, model.DefaultMaxBody}, {10, 10}} {
		l := model.Limits{MaxBody: tc.limit}
		if err := size(tc.bound, l); err != nil {
			t.Errorf("%d: got %v, want no error", tc.bound, err)
		}
		wantInvalid(t, size(tc.bound+1, l), "body", "limit is")
	}
	if got := size(11, model.Limits{MaxBody: 10}).Error(); got != "body has 11 bytes, the limit is 10" {
		t.Errorf("got %q", got)
	}
}

// A sender relies on the check of rows alone: it covers what Normalize refuses.
func TestC23_CheckCoversRowsWrittenByHand(t *testing.T) {
	t.Parallel()
	for field, spoil := range map[string]func(*model.Message){
		"id":          func(m *model.Message) { m.ID = "1" },
		"type":        func(m *model.Message) { m.Properties.Type = strings.Repeat("t", 256) },
		"expiration":  func(m *model.Message) { m.Properties.Expiration = "1h" },
		"timestamp":   func(m *model.Message) { m.Properties.Timestamp = time.Unix(math.MinInt32, 0) },
		"reply_to":    func(m *model.Message) { m.Properties.ReplyTo = "amq.rabbitmq.reply-to" },
		"routing_key": func(m *model.Message) { m.Exchange, m.RoutingKey = "", "amq.rabbitmq.reply-to.x" },
		"headers":     func(m *model.Message) { m.Headers = map[string]any{"h": make([]byte, 1<<17)} },
		"body":        func(m *model.Message) { m.Body = make([]byte, model.DefaultMaxBody+1) },
	} {
		m := normalize(t, model.Message{Exchange: "x"})
		if err := model.Check(&m, model.Limits{}); err != nil {
			t.Fatal(err)
		}
		spoil(&m)
		row := model.NewTransMessage("svc", &m, false)
		read, err := row.Message()
		if err != nil {
			t.Fatal(err)
		}
		wantInvalid(t, model.Check(&read, model.Limits{}), field)
	}
}

func TestNormalizeFillsDefaults(t *testing.T) {
	t.Parallel()
	now := testNow().Add(999 * time.Millisecond).In(time.FixedZone("far", 3600))
	m, err := model.Normalize(model.Message{RoutingKey: "q"}, now, model.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if ts := m.Properties.Timestamp; ts != testNow() {
		t.Errorf("got timestamp %v, want %v", ts, testNow())
	}
	if m.ID == "" || m.Headers != nil {
		t.Errorf("got id %q and headers %v", m.ID, m.Headers)
	}
	given := model.Message{RoutingKey: "q", Properties: model.Properties{Timestamp: time.Unix(5, 999)}}
	if ts := normalize(t, given).Properties.Timestamp; ts != time.Unix(5, 0).UTC() {
		t.Errorf("got timestamp %v, want whole seconds", ts)
	}
}

func TestNormalizeCopiesBodyAndHeaders(t *testing.T) {
	t.Parallel()
	inner, list, raw, body := map[string]any{"a": 1}, []any{"a"}, []byte("a"), []byte("body")
	headers := map[string]any{"t": inner, "l": list, "x": raw, "typed": []string{"a"}}
	in := model.Message{RoutingKey: "q", Body: body, Headers: headers}
	m := normalize(t, in)
	want := normalize(t, in)
	want.ID = m.ID
	inner["a"], list[0], raw[0], body[0] = 2, "b", 'b', 'B'
	in.Headers["new"] = true
	if diff := diffExact(want, m); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
