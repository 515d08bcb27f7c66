package bench

import "time"

// What the tests of the arithmetic and of the refusals look into.

func PercentilesOf(times []time.Duration) Percentiles { return percentiles(times) }
func Judge(kind string, settings []Setting) error     { return judge(kind, settings) }
func MakeBody(size int) []byte                        { return makeBody(size) }

const (
	RowProperties = rowProperties
	RowExchange   = rowExchange
	ContentType   = contentType
)

// IDs are n ids of a fill.
func IDs(n int) []string {
	r := newIDRange(n)
	var out []string
	for id := range r.all() {
		out = append(out, id)
	}
	return out
}

// Shares are the parts that callers get of n.
func Shares(n, parts int) []int {
	out := make([]int, parts)
	for i := range out {
		out[i] = share(n, parts, i)
	}
	return out
}
