// Package breaker knows what the broker refuses or does not confirm, so that messages for it
// are not sent among others: a refusal (403, or a 404 that was not foreseen) closes the
// channel under its neighbours and charges messages for what is not their fault, and sends
// without a confirm take the window from the others and may each be a copy.
//
// While a target is broken its messages wait, uncharged, but one at a time, the probe. A probe
// that is taken ends it; one that fails doubles the wait for the next.
//
// It lives in one process: each finds out by itself. It starts nothing and has no clock but
// time.Now.
package breaker
