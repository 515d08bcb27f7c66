package model

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/google/uuid"
)

// stableRoot is the root namespace of [StableID]. It never changes: ids made with
// another root would be other messages.
var stableRoot = uuid.MustParse("6f1d5c9e-3c0a-5b0e-9a55-7d3c1f0b8e21")

// NewID returns a new version 7 UUID, canonical and in rising order within the
// process, so that new rows are stored at the right edge of the primary key. Safe for
// concurrent use. It panics only where the system's random source fails.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// maxFirstEpoch bounds [NewEpoch]: the column is a signed INT of 32 bits that grows by one
// at each replay and edit.
const maxFirstEpoch = 1 << 30

// NewEpoch returns a random first epoch from 1 to 2^30-1 for a row that is about to be
// stored: another life of its id, before or after, has another one but for one case in
// a thousand million. Safe for concurrent use.
func NewEpoch() int { return 1 + rand.IntN(maxFirstEpoch-1) }

// StableID returns the same UUID (version 5) for the same namespace and parts, so
// that an event stored twice is one message while its row is stored, and one effect at
// a consumer that remembers ids. Parts are length-prefixed: ("ab", "c") and ("a", "bc")
// are different ids, and so are no part and one empty part. Namespace names the kind of
// event, such as "chain-event" or "order-paid"; parts are the business key, such as
// chain id, transaction hash and log index. Safe for concurrent use.
func StableID(namespace string, parts ...string) string {
	ns := uuid.NewSHA1(stableRoot, []byte(namespace))
	var data []byte
	for _, p := range parts {
		data = binary.BigEndian.AppendUint64(data, uint64(len(p)))
		data = append(data, p...)
	}
	return uuid.NewSHA1(ns, data).String()
}

// canonicalID reports whether s is a UUID in canonical lower-case form and not the nil
// UUID, and if not, why.
func canonicalID(s string) (reason string, ok bool) {
	if len(s) != 36 {
		return "must be a canonical UUID of 36 characters", false
	}
	u, err := uuid.Parse(s)
	switch {
	case err != nil:
		return "must be a canonical UUID", false
	case u.String() != s:
		return "must be a canonical lower-case UUID", false
	case u == uuid.Nil:
		return "must not be the nil UUID", false
	}
	return "", true
}
