package main

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/transmsg/transmsg/model"
)

// hostileMessage is a message of which one field is refused.
type hostileMessage struct {
	field, what string
	message     model.Message
}

// textField is a field of a message that is a short string.
type textField struct {
	name string
	set  func(*model.Message, string)
}

func textFields() []textField {
	return []textField{
		{"key", func(m *model.Message, s string) { m.Key = s }},
		{"routing_key", func(m *model.Message, s string) { m.RoutingKey = s }},
		{"content_type", func(m *model.Message, s string) { m.Properties.ContentType = s }},
		{"content_encoding", func(m *model.Message, s string) { m.Properties.ContentEncoding = s }},
		{"correlation_id", func(m *model.Message, s string) { m.Properties.CorrelationID = s }},
		{"reply_to", func(m *model.Message, s string) { m.Properties.ReplyTo = s }},
		{"type", func(m *model.Message, s string) { m.Properties.Type = s }},
		{"app_id", func(m *model.Message, s string) { m.Properties.AppID = s }},
	}
}

// What is wrong with a text.
const (
	withNUL  = "NUL"
	noUTF8   = "invalid UTF-8"
	tooLong  = "256 bytes"
	overLong = "over-long"
)

// texts are texts that no short string may be.
func (h *hostile) texts() []struct{ what, text string } {
	r := h.Rand
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	at := func(middle string) string { return letters(r, r.IntN(20)) + middle + letters(r, r.IntN(20)) }
	long := pick("k", "é", "\U0001F600", "\u202e", "\u05d0", "e\u0301")
	return []struct{ what, text string }{
		{withNUL, at("\x00")},
		{noUTF8, at(pick("\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80", "\xfe\xff"))},
		{tooLong, letters(r, 256)},
		{overLong, strings.Repeat(long, 256+r.IntN(2000))},
	}
}

// hostileMessages are messages with one field that must be refused, each kind with a
// seeded value.
func (h *hostile) hostileMessages() []hostileMessage {
	var list []hostileMessage
	add := func(field, what string, spoil func(*model.Message)) {
		m := h.message(h.exchange, "key", len(list), 256)
		spoil(&m)
		list = append(list, hostileMessage{field, what, m})
	}
	exchange := textField{"exchange", func(m *model.Message, s string) { m.Exchange = s }}
	expiration := textField{"expiration", func(m *model.Message, s string) { m.Properties.Expiration = s }}
	for _, f := range append(textFields(), exchange, expiration) {
		for _, t := range h.texts() {
			add(f.name, t.what, func(m *model.Message) { f.set(m, t.text) })
		}
	}
	for _, end := range []string{"\r", "\n", "\r\n"} {
		add("exchange", fmt.Sprintf("%q in it", end), func(m *model.Message) { m.Exchange += end })
	}
	for _, text := range []string{
		"1h", "-1", "1.5", "+1", " 1", "0x10", "1e3", "\u0663", "4294967296", "18446744073709551616", "1\n", "NaN",
	} {
		add("expiration", text, func(m *model.Message) { m.Properties.Expiration = text })
	}
	for _, id := range h.hostileIDs() {
		add("id", fmt.Sprintf("%q", id), func(m *model.Message) { m.ID = id })
	}
	const reply = "amq.rabbitmq.reply-to"
	add("reply_to", "direct reply-to", func(m *model.Message) { m.Properties.ReplyTo = reply })
	add("routing_key", "direct reply-to", func(m *model.Message) {
		m.Exchange, m.RoutingKey = "", reply+"."+letters(h.Rand, 12)
	})
	add("user_id", "any", func(m *model.Message) { m.Properties.UserID = letters(h.Rand, 1+h.Rand.IntN(300)) })
	for _, unix := range []int64{-1, -h.Rand.Int64N(1 << 60), math.MinInt64 / 4} {
		add("timestamp", fmt.Sprint(unix), func(m *model.Message) { m.Properties.Timestamp = time.Unix(unix, 0) })
	}
	add("body", "over 4 MiB", func(m *model.Message) {
		m.Body = make([]byte, model.DefaultMaxBody+1+h.Rand.IntN(1<<20))
	})
	return append(list, h.hostileHeaders()...)
}

func (h *hostile) hostileIDs() []string {
	id := model.NewID()
	return []string{
		letters(h.Rand, 1+h.Rand.IntN(100)), strings.ToUpper(uuid.NewString()[:35] + "f"), "{" + id + "}",
		"urn:uuid:" + id, strings.ReplaceAll(id, "-", ""), uuid.Nil.String(), id + "\n", " " + id[1:], id[:35] + "g",
		id[:35] + "\x00", id[:35] + "\xff", strings.Repeat("\uff11", 12), id + id, id[:18] + "\u202e" + id[21:],
	}
}

// hostileHeaders are headers with a name, a value, a shape or a size that must be refused,
// values at a seeded depth.
func (h *hostile) hostileHeaders() []hostileMessage {
	var list []hostileMessage
	add := func(what string, headers map[string]any) {
		m := h.message(h.exchange, "key", len(list), 256)
		m.Headers = headers
		list = append(list, hostileMessage{"headers", what, m})
	}
	text := letters(h.Rand, 5)
	for _, v := range []any{
		math.NaN(),
		math.Inf(1), math.Inf(-1), float32(math.NaN()), float32(math.Inf(1)),
		uint64(math.MaxInt64) + 1 + h.Rand.Uint64N(1<<62), uint(math.MaxUint64), time.Duration(h.Rand.Int64()),
		struct{ A int }{1},
		&text,
		(*string)(nil), errors.New("x"), func() {}, make(chan int), complex(1, 2),
		map[int]string{1: "a"},
		map[any]any{"a": 1},
		big.NewInt(7), new(big.Float),
		[]any{struct{}{}},
		map[string]error{"e": errors.New("x")},
		[]float64{1, math.NaN()},
	} {
		add(fmt.Sprintf("a value of type %T", v), map[string]any{text: h.wrapped(v)})
	}
	for _, bad := range h.texts() {
		add("name: "+bad.what, map[string]any{bad.text: 1})
		add("name in a table: "+bad.what, map[string]any{text: map[string]any{bad.text: 1}})
		if bad.what == noUTF8 {
			add("text that is no UTF-8", map[string]any{text: h.wrapped(bad.text)})
		}
	}
	for _, name := range []string{"CC", "BCC", "x-transmsg-" + text, "X-TransMsg-" + text} {
		add("reserved name "+name, map[string]any{name: []any{"q"}})
	}
	add("x-death that a queue cannot read", map[string]any{"x-death": "no array"})
	deep := any(text)
	for range 33 + h.Rand.IntN(100) {
		deep = []any{deep}
	}
	add("nesting", map[string]any{text: deep})
	round := map[string]any{}
	round[text] = round
	add("a table in itself", round)
	list8001 := make([]int, 8001+h.Rand.IntN(1000))
	add("a long array", map[string]any{text: list8001})
	wide := map[string]any{}
	for i := range list8001 {
		wide[fmt.Sprint(i)] = nil
	}
	add("a wide table", wide)
	add("more than a frame", map[string]any{text: strings.Repeat("x", model.DefaultFrameMax+h.Rand.IntN(1<<20))})
	return list
}

// wrapped puts v into arrays and tables, up to five deep.
func (h *hostile) wrapped(v any) any {
	for range h.Rand.IntN(6) {
		switch h.Rand.IntN(3) {
		case 0:
			v = []any{nil, v, true}
		case 1:
			v = map[string]any{letters(h.Rand, 3): v}
		default:
			v = []map[string]any{{letters(h.Rand, 3): v}}
		}
	}
	return v
}

// oddities are messages that look hostile and are none: they must arrive as they are.
func (h *hostile) oddities() []hostileMessage {
	odd := []string{
		"\U0001F600\U0001F468\u200d\U0001F469\u200d\U0001F467", "\u202eabc\u202c", "\u0627\u0644\u0633\u0644",
		"\x01\x02\x1b[31m\x7f", "a\r\nb", "\u2028\u2029\u0085", "\ufeffbom", "e\u0301\u0302\u0303", "\ufffd\ufffe",
		"'; DROP TABLE trans_message; --", `\'\"\\`, "%s%n%d%!", "${jndi:ldap://x}", "<script>alert(1)</script>",
		" leading and trailing ", "\t", "*.#", "\u0430\u0440\u0440", "null", "{}", "0", "nope\x08\x08",
		letters(h.Rand, 255), strings.Repeat("é", 127) + "k",
	}
	var list []hostileMessage
	for _, text := range odd {
		var all model.Message
		for _, f := range textFields() {
			f.set(&all, text)
		}
		all.Body = []byte(text)
		all.Headers = map[string]any{text: text, "list": []any{text}}
		list = append(list, hostileMessage{"", fmt.Sprintf("%.40q everywhere", text), all})
	}
	for _, headers := range []map[string]any{
		{"": "an empty name"},
		{"cc": "q", "bcc": []any{"q"}, "x-match": "any", "x-delay": "soon"},
		{"least": int64(math.MinInt64), "most": int64(math.MaxInt64), "u": uint32(math.MaxUint32)},
		{"NUL": "a\x00b", "bytes": "\x01\x02"},
	} {
		list = append(list, hostileMessage{"", fmt.Sprintf("headers %.60q", fmt.Sprint(headers)), model.Message{
			Headers: headers,
		}})
	}
	for _, unix := range []int64{0, 1 << 31, 1 << 32, 253402300799, 253402300800, 1 << 40} {
		list = append(list, hostileMessage{"", fmt.Sprintf("timestamp %d", unix), model.Message{
			Properties: model.Properties{Timestamp: time.Unix(unix, 0)},
		}})
	}
	return list
}
