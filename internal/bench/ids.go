package bench

import (
	"encoding/binary"
	"iter"
	"slices"

	"github.com/google/uuid"
)

// idRange makes the ids of a fill without keeping them: version 7 in rising order, as
// the library's own, so that a million rows cost the measured process no memory.
type idRange struct {
	base uuid.UUID
	n    int
}

func newIDRange(n int) idRange { return idRange{base: uuid.Must(uuid.NewV7()), n: n} }

// at is the i-th id; the last six bytes are the number.
func (r idRange) at(i int) string {
	id := r.base
	binary.BigEndian.PutUint16(id[10:], uint16(uint64(i)>>32))
	binary.BigEndian.PutUint32(id[12:], uint32(i))
	return id.String()
}

func (r idRange) all() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range r.n {
			if !yield(r.at(i)) {
				return
			}
		}
	}
}

// flatten are the ids that several callers collected.
func flatten(lists [][]string) iter.Seq[string] { return slices.Values(slices.Concat(lists...)) }
