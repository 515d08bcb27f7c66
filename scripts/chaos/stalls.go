package main

import (
	"slices"
	"time"
)

// addTimes computes the stalls and how long it took after each fault.
func (s *summary) addTimes(r *run) {
	publishers := r.callTimes()
	var oks []int64
	for _, p := range publishers {
		oks = append(oks, p.oks...)
	}
	slices.Sort(oks)
	arrived := slices.Clone(r.counter.times)
	slices.Sort(arrived)
	for _, times := range [][]int64{oks, arrived} {
		s.LongestStallMS = max(s.LongestStallMS, longestGap(times, r.faults, r.begin, r.end)/1e6)
	}
	compensated := r.compensated()
	for _, d := range r.faults {
		if d.To >= r.end {
			continue
		}
		was := s.RecoveryMS[d.Kind]
		now := recovery{
			Publish:    r.slowest(publishers, d),
			Deliver:    sinceFault(arrived, r.faults, d.To, r.end),
			Compensate: sinceFault(compensated, r.faults, d.To, r.end),
		}
		s.RecoveryMS[d.Kind] = recovery{
			max(was.Publish, now.Publish), max(was.Deliver, now.Deliver), max(was.Compensate, now.Compensate),
		}
		if !r.opts.untimed {
			s.checkRecovery(d, now)
		}
	}
}

// Bounds of how long after a fault publishing, delivering and compensating may take to go
// on. A silent link is given up and dialled again, or its confirms run into their timeout.
const (
	recoveryBound    = 5 * time.Second
	recoveryDatabase = 2 * time.Second
	recoverySilent   = 20 * time.Second
)

// recovers is the bound after this fault.
func (d *done) recovers() time.Duration {
	switch {
	case d.Silent:
		return recoverySilent
	case d.Database:
		return recoveryDatabase
	}
	return recoveryBound
}

// checkRecovery compares one fault's recovery with its bound. What compensators do after a
// database fault waits for the delays of their rows, so there it has the bound of the others.
func (s *summary) checkRecovery(d done, now recovery) {
	bound := d.recovers()
	for _, x := range []struct {
		what  string
		ms    int64
		bound time.Duration
	}{
		{"publishing", now.Publish, bound},
		{"delivering", now.Deliver, bound},
		{"compensating", now.Compensate, max(bound, recoveryBound)},
	} {
		if x.ms > x.bound.Milliseconds() {
			s.fail("after %s %s went on after %d ms, want at most %d", d.Kind, x.what, x.ms, x.bound.Milliseconds())
		}
	}
}

// callTimes are when one publisher made its first call and when its calls returned nil.
type callTimes struct {
	first int64
	oks   []int64 // sorted
}

// callTimes are those of every publisher that made a call, by name.
func (r *run) callTimes() map[string]*callTimes {
	all := map[string]*callTimes{}
	for key, c := range r.book.calls {
		p := all[key.proc]
		if p == nil {
			p = &callTimes{first: c.at}
			all[key.proc] = p
		}
		p.first = min(p.first, c.at)
		if c.verdict == verdictOK {
			p.oks = append(p.oks, c.done)
		}
	}
	for _, p := range all {
		slices.Sort(p.oks)
	}
	return all
}

// slowest is how long after a fault the last of the publishers goes on that were at work
// before its end. One that was ended on purpose before it went on is not counted.
func (r *run) slowest(publishers map[string]*callTimes, d done) (ms int64) {
	for name, p := range publishers {
		n := len(p.oks)
		there := slices.Contains(r.there, name)
		if p.first < d.To && (there || n > 0 && p.oks[n-1] > d.To) {
			ms = max(ms, sinceFault(p.oks, r.faults, d.To, r.end))
		}
	}
	return ms
}

// compensated are the times at which the broker answered a compensator's send, sorted.
func (r *run) compensated() []int64 {
	roles := map[string]string{}
	for _, m := range r.fleet.all {
		roles[m.spec.Name] = m.role
	}
	var times []int64
	for _, sends := range r.book.sends {
		for _, x := range sends {
			if roles[x.proc] == roleCompensator && (x.kind == "acked" || x.kind == "returned" || x.kind == "nacked") {
				times = append(times, x.done)
			}
		}
	}
	slices.Sort(times)
	return times
}

// sinceFault is how many milliseconds after a fault's end the first of the sorted times is,
// less what of that was spent in the faults that followed. None until the run's end counts as
// the end.
func sinceFault(times []int64, faults []done, end, over int64) int64 {
	first := over
	if i, _ := slices.BinarySearch(times, end); i < len(times) {
		first = min(times[i], over)
	}
	return (first - end - within(faults, end, first)) / 1e6
}

// longestGap is the longest time between two of the sorted times within [begin, end], less
// what of it was spent in faults.
func longestGap(times []int64, faults []done, begin, end int64) (longest int64) {
	last := begin
	for _, t := range append(slices.Clone(times), end) {
		if t < begin || t > end {
			continue
		}
		if t-last > longest {
			longest = max(longest, t-last-within(faults, last, t))
		}
		last = t
	}
	return longest
}

// within is how much of [from, to] is in faults, which do not overlap each other.
func within(faults []done, from, to int64) (sum int64) {
	for _, d := range faults {
		sum += max(0, min(d.To, to)-max(d.From, from))
	}
	return sum
}
