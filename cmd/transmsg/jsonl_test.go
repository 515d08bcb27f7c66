package main

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/transmsg/transmsg/model"
)

func TestParseLine(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 9, 30, 0, 0, time.UTC)
	tests := []struct {
		name, line string
		want       model.Message
	}{
		{"empty", `{}`, model.Message{}},
		{"every field", `{"id":"a","key":"k","exchange":"e","routing_key":"r","body":"b","content_type":"ct",
			"content_encoding":"ce","correlation_id":"ci","reply_to":"rt","expiration":"60000","type":"t","app_id":"ai",
			"user_id":"u","priority":255,"timestamp":"2026-01-31T09:30:00Z","not_before":"2026-01-31T10:30:00+01:00",
			"allow_unroutable":true,"headers":{}}`, model.Message{
			ID: "a", Key: "k", Exchange: "e", RoutingKey: "r", Body: []byte("b"), Headers: map[string]any{},
			Properties: model.Properties{
				ContentType: "ct", ContentEncoding: "ce", CorrelationID: "ci", ReplyTo: "rt", Expiration: "60000",
				Type:  "t",
				AppID: "ai", UserID: "u", Priority: 255, Timestamp: at,
			},
			NotBefore: at, AllowUnroutable: true,
		}},
		{
			"escapes and a surrogate pair", `{"body":"a\u0000\n\"\\u\ud83d\ude00\ufffd"}`,
			model.Message{Body: []byte("a\x00\n\"\\u\U0001F600\uFFFD")},
		},
		{"base64", `{"body_base64":"AP+A"}`, model.Message{Body: []byte{0, 0xff, 0x80}}},
		{"json keeps its own bytes", `{"json": {"b":1.10, "a":[ ]} }`, model.Message{
			Body: []byte(`{"b":1.10, "a":[ ]}`), Properties: model.Properties{ContentType: "application/json"},
		}},
		{
			"json with a content type", `{"json":null,"content_type":"x"}`,
			model.Message{Body: []byte("null"), Properties: model.Properties{ContentType: "x"}},
		},
		{
			"headers", `{"headers":{"i":-9223372036854775808,"f":1.0,"e":1e3,"s":"1","n":null,"b":false,
			"t":{"x":[1,"a",{}]}}}`,
			model.Message{Headers: map[string]any{
				"i": int64(math.MinInt64), "f": 1.0, "e": 1000.0, "s": "1", "n": nil, "b": false,
				"t": map[string]any{"x": []any{int64(1), "a", map[string]any{}}},
			}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseLine([]byte(tt.line))
			if err != nil {
				t.Fatal(err)
			}
			got.NotBefore = got.NotBefore.UTC()
			if tt.want.NotBefore.IsZero() {
				got.NotBefore = time.Time{}
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("got -, want +:\n%s", diff)
			}
		})
	}
}

func TestParseLineRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, line, want string }{
		{"unknown field", `{"exchnage":"e"}`, `unknown field "exchnage", did you mean exchange?`},
		{"field of other case", `{"Exchange":"e"}`, `unknown field "Exchange", did you mean exchange?`},
		{"field twice", `{"body":"a","body":"b"}`, `field "body" is given twice`},
		{"header twice", `{"headers":{"a":1,"a":2}}`, `headers field "a" is given twice`},
		{"two bodies", `{"body":"a","json":1}`, `body and json: give one body only`},
		{"not an object", `[1]`, `must be a JSON object, got [1]`},
		{"not JSON", `body=a`, `not JSON: `},
		{"cut off", `{"body":"a"`, `the line ends too early`},
		{"more behind", `{} {}`, `more follows after the JSON object`},
		{"invalid UTF-8", "{\"body\":\"\xff\"}", `not valid UTF-8; send bytes as body_base64`},
		{"high half", `{"body":"\ud83d"}`, `\ud83d is half a surrogate pair`},
		{"high half before another escape", `{"body":"\ud83d\n"}`, `\ud83d is half a surrogate pair`},
		{"low half", `{"body":"\\\ude00"}`, `\ude00 is half a surrogate pair`},
		{"text as number", `{"expiration":60000}`, `expiration must be a string, got 60000`},
		{"text as null", `{"exchange":null}`, `exchange must be a string, got null`},
		{"priority", `{"priority":256}`, `priority must be an integer from 0 to 255, got 256`},
		{"time", `{"not_before":"tomorrow"}`, `not_before must be a time like 2026-01-31T09:30:00Z, got "tomorrow"`},
		{"bool", `{"allow_unroutable":1}`, `allow_unroutable must be true or false, got 1`},
		{"base64", `{"body_base64":"AP8"}`, `body_base64 must be base64 with padding`},
		{"headers", `{"headers":[1]}`, `headers must be an object, got [1]`},
		{
			"integer above 64 bits", `{"headers":{"n":9223372036854775808}}`,
			`headers "n": integer 9223372036854775808 does not fit into 64 bits; send it as a string`,
		},
		{"number out of range", `{"headers":{"n":[1,1e999]}}`, `headers "n": element 1: number 1e999 is out of range`},
		{"nesting", `{"headers":{"n":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}}`, `nested too deep`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := parseLine([]byte(tt.line))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestLineReader(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200<<10) // over the reader's own buffer
	tests := []struct {
		name, in string
		limit    int
		want     []string // "number text", or "number !" for a line too long
	}{
		{"empty", "", 10, nil},
		{"blank lines keep their numbers", "\n a\r\n\n \nb", 10, []string{"2  a", "5 b"}},
		{"mark of UTF-8", "\uFEFFa\n\uFEFFb", 10, []string{"1 a", "2 \uFEFFb"}},
		{"at the limit", "12345\n12345", 5, []string{"1 12345", "2 12345"}},
		{"over the limit", "123456\nab\n1234567890", 5, []string{"1 !", "2 ab", "3 !"}},
		{"far over the limit", long + "\nab\n" + long, 5, []string{"1 !", "2 ab", "3 !"}},
		{"long and allowed", long, len(long), []string{"1 " + long}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newLineReader(strings.NewReader(tt.in), tt.limit)
			var got []string
			for {
				line, err := r.next()
				if err != nil && strings.Contains(err.Error(), "over "+strconv.Itoa(tt.limit)+" bytes") {
					line = []byte("!")
				} else if err != nil {
					break
				}
				got = append(got, strconv.Itoa(r.number)+" "+string(line))
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("got -, want +:\n%.2000s", diff)
			}
		})
	}
}

// FuzzParseLine: no line makes the parser panic, and what it takes means the same when it
// is written out and read again. The corpus is in testdata/fuzz.
func FuzzParseLine(f *testing.F) {
	lines, err := os.ReadFile(filepath.Join("testdata", "publish_jsonl.txtar"))
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		f.Add([]byte(strings.TrimSpace(line)))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := parseLine(line)
		if err != nil {
			return
		}
		again, err := parseLine(writeLine(t, &m))
		if err != nil {
			t.Fatalf("%s: %v", writeLine(t, &m), err)
		}
		if diff := cmp.Diff(again, m); diff != "" {
			t.Fatalf("got -, want +:\n%s", diff)
		}
	})
}

// writeLine is the inverse of parseLine.
func writeLine(t *testing.T, m *model.Message) []byte {
	t.Helper()
	p := &m.Properties
	fields := map[string]any{}
	for name, value := range map[string]string{
		"id": m.ID, "key": m.Key, "exchange": m.Exchange, "routing_key": m.RoutingKey,
		"content_type": p.ContentType, "content_encoding": p.ContentEncoding, "correlation_id": p.CorrelationID,
		"reply_to": p.ReplyTo, "expiration": p.Expiration, "type": p.Type, "app_id": p.AppID, "user_id": p.UserID,
	} {
		if value != "" {
			fields[name] = value
		}
	}
	if m.Body != nil {
		fields["body_base64"] = base64.StdEncoding.EncodeToString(m.Body)
	}
	if p.Priority > 0 {
		fields["priority"] = p.Priority
	}
	if m.AllowUnroutable {
		fields["allow_unroutable"] = true
	}
	if !p.Timestamp.IsZero() {
		fields["timestamp"] = p.Timestamp.Format(time.RFC3339Nano)
	}
	if !m.NotBefore.IsZero() {
		fields["not_before"] = m.NotBefore.Format(time.RFC3339Nano)
	}
	if m.Headers != nil {
		fields["headers"] = writeHeader(m.Headers)
	}
	b, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// writeHeader keeps floats apart from integers.
func writeHeader(v any) any {
	switch x := v.(type) {
	case float64:
		return json.RawMessage(strconv.FormatFloat(x, 'e', -1, 64))
	case map[string]any:
		out := map[string]any{}
		for k, v := range x {
			out[k] = writeHeader(v)
		}
		return out
	case []any:
		out := make([]any, len(x))
		for i, v := range x {
			out[i] = writeHeader(v)
		}
		return out
	default:
		return v
	}
}
