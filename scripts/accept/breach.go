package main

import (
	"fmt"
	"reflect"
	"sync"
)

// breaches collects what did not hold, so that a run reports all of it rather
// than the first. The zero value is ready; it is safe for concurrent use.
type breaches struct {
	mu   sync.Mutex
	list []string
}

// Add records one breach.
func (b *breaches) Add(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, fmt.Sprintf(format, args...))
}

// Check records a breach unless ok, and returns ok.
func (b *breaches) Check(ok bool, format string, args ...any) bool {
	if !ok {
		b.Add(format, args...)
	}
	return ok
}

// Equal records a breach naming what, got and want unless they are deeply
// equal, and returns whether they are. Both must have the same type.
func (b *breaches) Equal(what string, got, want any) bool {
	return b.Check(reflect.DeepEqual(got, want), "%s: got %v, want %v", what, got, want)
}

// AtMost records a breach unless got <= limit, and returns whether it is.
func (b *breaches) AtMost(what string, got, limit int64) bool {
	return b.Check(got <= limit, "%s: got %d, want at most %d", what, got, limit)
}

// AtLeast records a breach unless got >= limit, and returns whether it is.
func (b *breaches) AtLeast(what string, got, limit int64) bool {
	return b.Check(got >= limit, "%s: got %d, want at least %d", what, got, limit)
}

// All returns a copy of what was recorded, never nil, in the order of arrival.
func (b *breaches) All() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string{}, b.list...)
}
