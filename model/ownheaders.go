package model

import (
	"fmt"
	"maps"
	"strings"
	"time"
)

// The headers that the library itself adds, for consumers. Both are 64-bit integers. Names
// that begin with "transmsg-" are reserved: a caller's are refused.
const (
	// HeaderRevision carries [Message.Revision], where that is not zero.
	HeaderRevision = "transmsg-revision"
	// HeaderStoredAt carries the publisher's time of storing, in Unix milliseconds: its own
	// clock, which need not be that of another publisher or of the database. Only where the
	// publisher was opened with StampStored.
	HeaderStoredAt = "transmsg-stored-at"
)

const ownPrefix = "transmsg-"

// StampStored adds [HeaderStoredAt] to a normalized message and checks it again.
func StampStored(m *Message, now time.Time, l Limits) error {
	setOwn(m, HeaderStoredAt, now.UnixMilli())
	return Check(m, l)
}

func setOwn(m *Message, name string, value int64) {
	if m.Headers == nil {
		m.Headers = make(map[string]any, 1)
	}
	m.Headers[name] = value
}

// ownHeader says why a header of a stored row with a reserved name is refused, or "". ok says
// that it is one of the library's own.
func ownHeader(k string, v any) (reason string, ok bool) {
	if k != HeaderRevision && k != HeaderStoredAt {
		return "", false
	}
	if n, isInt := v.(int64); !isInt || n < 1 {
		return fmt.Sprintf("is the library's own and must be a positive int64, got %T %v", v, v), true
	}
	return "", true
}

// replaceHeaders returns the caller's headers with the library's own of before, which an edit
// keeps. Where the caller gives them as they were, that is no change.
func replaceHeaders(before, given map[string]any) (map[string]any, error) {
	callers := maps.Clone(given)
	own := map[string]any{}
	for k, v := range before {
		if !strings.HasPrefix(k, ownPrefix) {
			continue
		}
		own[k] = v
		if same, ok := v.(int64); ok && callers[k] == same {
			delete(callers, k)
		}
	}
	out, err := NormalizeHeaders(callers)
	if err != nil || len(own) == 0 {
		return out, err
	}
	maps.Copy(own, out)
	return own, nil
}
