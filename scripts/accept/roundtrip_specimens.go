package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/transmsg/transmsg/model"
)

// typed is a header value as a caller gives it and as a consumer must get it.
type typed struct {
	name string
	give any
	want any
}

// headerValues has each AMQP type letter at its edges and at a seeded value.
func (r *roundtrip) headerValues() []typed {
	rnd := r.Rand
	same := func(name string, v any) typed { return typed{name, v, v} }
	at := time.Unix(rnd.Int64N(1<<32), 0).UTC()
	text := r.name("text") + "\t\x01\u0085\U0001F600\"\\"
	blob := bytesOf(rnd, rnd.IntN(3000))
	values := []typed{
		same("V", nil), same("t true", true), same("t false", false),
		same("b", int8(rnd.Uint32())), same("b least", int8(math.MinInt8)), same("B", uint8(rnd.Uint32())),
		same("B most", uint8(math.MaxUint8)),
		same("s", int16(rnd.Uint32())), same("s least", int16(math.MinInt16)),
		same("u", uint16(rnd.Uint32())), same("u most", uint16(math.MaxUint16)),
		same("I", int32(rnd.Uint32())), same("I least", int32(math.MinInt32)),
		same("i", rnd.Uint32()), same("i most", uint32(math.MaxUint32)),
		same("l", int64(rnd.Uint64())), same("l least", int64(math.MinInt64)), same("l most", int64(math.MaxInt64)),
		same("f", rnd.Float32()), same("f least", float32(math.SmallestNonzeroFloat32)),
		same("f most", float32(-math.MaxFloat32)),
		same("d", rnd.NormFloat64()*1e300), same("d most", math.MaxFloat64),
		same("d least", math.SmallestNonzeroFloat64),
		same("d -0", math.Copysign(0, -1)), // NaN and infinities are refused: no broker takes them
		{"D", model.Decimal{Scale: 3, Value: -rnd.Int32()}, nil},
		{"D most", model.Decimal{Scale: 255, Value: math.MaxInt32}, nil},
		same("S", text), same("S empty", ""), same("S long", strings.Repeat("é", 2000)), same("S NUL", "a\x00b"),
		same("x", blob), same("x empty", []byte{}), same("x all", allBytes()),
		same("T", at),
		{"T with parts", at.Add(time.Duration(rnd.IntN(1e9))).In(time.FixedZone("", 3600)), at},
		{"int", -7 - rnd.IntN(1e9), nil},
		{"uint", uint(rnd.Uint32()), nil},
		{"list of strings", []string{"a", text}, []any{"a", text}},
		{"table of ints", map[string]int{"n": 5}, amqp.Table{"n": int64(5)}},
	}
	for i, v := range values {
		switch give := v.give.(type) {
		case model.Decimal:
			values[i].want = amqp.Decimal{Scale: give.Scale, Value: give.Value}
		case int:
			values[i].want = int64(give)
		case uint:
			values[i].want = int64(give)
		}
	}
	return values
}

// nested puts all values into an array and a table, and those into each other.
func nested(values []typed) []typed {
	var giveList, wantList []any
	giveTable, wantTable := map[string]any{}, amqp.Table{}
	for _, v := range values {
		giveList, wantList = append(giveList, v.give), append(wantList, v.want)
		giveTable[v.name], wantTable[v.name] = v.give, v.want
	}
	return []typed{
		{"A", giveList, wantList},
		{"F", giveTable, wantTable},
		{"A empty", []any{}, []any{}},
		{"F empty", map[string]any{}, amqp.Table{}},
		{"A of F of A", []any{map[string]any{"deep": giveList}}, []any{amqp.Table{"deep": wantList}}},
	}
}

// specimens are bodies and properties, each with its headers.
func (r *roundtrip) specimens() []specimen {
	values := r.headerValues()
	values = append(values, nested(values)...)
	all := specimen{headers: amqp.Table{}}
	all.message.Headers = map[string]any{}
	var list []specimen
	for _, v := range values {
		key := v.name + " " + letters(r.Rand, r.Rand.IntN(200))
		all.message.Headers[key], all.headers[key] = v.give, v.want
		one := specimen{name: "header " + v.name, headers: amqp.Table{key: v.want}}
		one.message.Headers = map[string]any{key: v.give}
		list = append(list, one)
	}
	for _, body := range []struct {
		name string
		body []byte
	}{
		{"empty body", nil},
		{"one NUL", []byte{0}},
		{"all 256 values", allBytes()},
		{"1 MiB random", bytesOf(r.Rand, 1<<20)},
		{"random size", bytesOf(r.Rand, size(r.Rand, 1<<18))},
	} {
		s := all
		s.name, s.message.Body = body.name, body.body
		s.message.Properties = r.properties()
		list = append(list, s)
		list = append(list, specimen{name: body.name + " and nothing else", message: model.Message{Body: body.body}})
	}
	list = append(list, r.onePropertyEach()...)
	for i := range list {
		list[i].message.Exchange, list[i].message.RoutingKey = r.exchange, r.key
	}
	r.Rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// properties sets all of them.
func (r *roundtrip) properties() model.Properties {
	return model.Properties{
		ContentType: "application/x-" + letters(r.Rand, 8), ContentEncoding: "gzip",
		Priority:      uint8(1 + r.Rand.IntN(255)),
		CorrelationID: r.name("corr"), ReplyTo: r.name("reply"),
		Expiration: fmt.Sprint(3_600_000 + r.Rand.IntN(1e6)),
		Type:       strings.Repeat("é", 127), AppID: r.name("app"),
		Timestamp: time.Unix(r.Rand.Int64N(1<<33), 5).UTC(),
	}
}

// onePropertyEach sets each alone, so that one in another's place shows.
func (r *roundtrip) onePropertyEach() []specimen {
	p := r.properties()
	var list []specimen
	for _, one := range []struct {
		name string
		p    model.Properties
	}{
		{"content type", model.Properties{ContentType: p.ContentType}},
		{"content encoding", model.Properties{ContentEncoding: p.ContentEncoding}},
		{"priority", model.Properties{Priority: p.Priority}},
		{"correlation id", model.Properties{CorrelationID: p.CorrelationID}},
		{"reply to", model.Properties{ReplyTo: p.ReplyTo}},
		{"expiration", model.Properties{Expiration: p.Expiration}},
		{"type", model.Properties{Type: p.Type}},
		{"app id", model.Properties{AppID: p.AppID}},
		{"timestamp", model.Properties{Timestamp: p.Timestamp}},
	} {
		list = append(list, specimen{name: one.name + " alone", message: model.Message{Properties: one.p}})
	}
	return list
}

func allBytes() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}
