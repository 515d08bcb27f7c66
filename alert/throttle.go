package alert

import (
	"net/http"
	"strconv"
	"time"
)

// ThrottledError is the error of a sink that takes no more alerts for now. A compensator
// leaves that sink alone for so long, and tells its other sinks.
type ThrottledError struct {
	// After is how long the service asked to be left alone; 0 when it did not say.
	After time.Duration
	// Err is what it answered.
	Err error
}

// Error implements error.
func (e *ThrottledError) Error() string { return e.Err.Error() }

// Unwrap returns the answer.
func (e *ThrottledError) Unwrap() error { return e.Err }

// RetryAfter returns After; a compensator looks for this method.
func (e *ThrottledError) RetryAfter() time.Duration { return e.After }

// throttled reports whether an answer says that there are too many requests, and for how
// long there are to be none.
func throttled(resp *http.Response) (time.Duration, bool) {
	after, said := retryAfter(resp.Header.Get("Retry-After"))
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return after, true
	case http.StatusServiceUnavailable:
		return after, said
	}
	return 0, false
}

// retryAfter reads seconds or a date.
func retryAfter(value string) (time.Duration, bool) {
	if seconds, err := strconv.ParseInt(value, 10, 32); err == nil && seconds >= 0 {
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0), true
	}
	return 0, false
}
