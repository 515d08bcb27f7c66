package main

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/transmsg/transmsg/model"
)

// name returns a fresh name for an exchange, a queue or a key; some are long,
// dotted or outside ASCII.
func (e *env) name(prefix string) string {
	endings := []string{"", ".created", "-Zürich", "/v2", " with space", ".订单", ".*", ".ÿ"}
	return fmt.Sprintf("%s-%s%s", prefix, letters(e.Rand, 4+e.Rand.IntN(12)), endings[e.Rand.IntN(len(endings))])
}

func letters(r *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('a' + r.IntN(26))
	}
	return string(b)
}

// bytesOf returns n random bytes.
func bytesOf(r *rand.Rand, n int) []byte {
	b := make([]byte, 0, n+8)
	for len(b) < n {
		b = binary.LittleEndian.AppendUint64(b, r.Uint64())
	}
	return b[:n]
}

// size is mostly small and sometimes up to limit.
func size(r *rand.Rand, limit int) int {
	return int(math.Pow(float64(limit+1), r.Float64())) - 1
}

// message returns a message with a random body and some headers; its
// correlation id tells which it is.
func (e *env) message(exchange, key string, n, maxBody int) model.Message {
	m := model.Message{
		Exchange: exchange, RoutingKey: key, Key: fmt.Sprintf("order-%d", n),
		Body:       bytesOf(e.Rand, size(e.Rand, maxBody)),
		Properties: model.Properties{CorrelationID: fmt.Sprint(n)},
	}
	if k := e.Rand.IntN(4); k > 0 {
		m.Headers = map[string]any{}
		for range k {
			m.Headers[letters(e.Rand, 1+e.Rand.IntN(20))] = e.value()
		}
	}
	return m
}

// value is a random header value.
func (e *env) value() any {
	switch e.Rand.IntN(6) {
	case 0:
		return e.Rand.Int64()
	case 1:
		return letters(e.Rand, e.Rand.IntN(64))
	case 2:
		return e.Rand.Float64()
	case 3:
		return bytesOf(e.Rand, e.Rand.IntN(64))
	case 4:
		return []any{true, e.Rand.Int32(), nil}
	default:
		return map[string]any{letters(e.Rand, 3): e.Rand.IntN(2) == 0}
	}
}
