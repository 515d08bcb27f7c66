// Package fanout makes one function of the listeners' functions: it calls each, in order.
package fanout

// Call0 returns a function that calls, in order, what pick finds at each of the listeners. A nil is
// left out, so with nobody who listens it does nothing. It may be called concurrently as far as
// the listeners' functions may.
func Call0[L any](listeners []L, pick func(L) func()) func() {
	var all []func()
	for _, l := range listeners {
		if f := pick(l); f != nil {
			all = append(all, f)
		}
	}
	return func() {
		for _, f := range all {
			f()
		}
	}
}

// Call1 is [Call0] for functions of one argument.
func Call1[L, A any](listeners []L, pick func(L) func(A)) func(A) {
	var all []func(A)
	for _, l := range listeners {
		if f := pick(l); f != nil {
			all = append(all, f)
		}
	}
	return func(a A) {
		for _, f := range all {
			f(a)
		}
	}
}

// Call2 is [Call0] for functions of two arguments.
func Call2[L, A, B any](listeners []L, pick func(L) func(A, B)) func(A, B) {
	var all []func(A, B)
	for _, l := range listeners {
		if f := pick(l); f != nil {
			all = append(all, f)
		}
	}
	return func(a A, b B) {
		for _, f := range all {
			f(a, b)
		}
	}
}

// Call3 is [Call0] for functions of three arguments.
func Call3[L, A, B, C any](listeners []L, pick func(L) func(A, B, C)) func(A, B, C) {
	var all []func(A, B, C)
	for _, l := range listeners {
		if f := pick(l); f != nil {
			all = append(all, f)
		}
	}
	return func(a A, b B, c C) {
		for _, f := range all {
			f(a, b, c)
		}
	}
}
