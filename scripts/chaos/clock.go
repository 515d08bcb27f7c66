package main

import (
	"time"
	"unsafe"
)

// wallStepped returns t with its wall clock moved by whole seconds and its monotonic
// clock left alone: as if somebody had set the clock of this process after t was read.
// The standard library offers no way to do that, so this writes to the representation of
// time.Time, and returns t unchanged where that is not the one expected; then the fault
// does not bite, and the run says so.
func wallStepped(t time.Time, by time.Duration) time.Time {
	type representation struct {
		wall uint64 // bit 63: has monotonic; 33 bits of seconds since 1885; 30 bits of nanoseconds
		ext  int64
		loc  *time.Location
	}
	if unsafe.Sizeof(t) != unsafe.Sizeof(representation{}) {
		return t
	}
	moved := t
	r := (*representation)(unsafe.Pointer(&moved))
	if r.wall>>63 == 0 {
		return t // no monotonic clock, no second opinion
	}
	r.wall += uint64(int64(by/time.Second)) << 30
	if moved.Sub(t) != 0 || moved.Round(0).Sub(t.Round(0)) != by.Truncate(time.Second) {
		return t
	}
	return moved
}
