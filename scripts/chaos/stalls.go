package main

import "slices"

// addTimes computes the stalls and how long it took after each fault.
func (s *summary) addTimes(r *run) {
	var oks []int64
	for _, c := range r.book.calls {
		if c.verdict == verdictOK {
			oks = append(oks, c.done)
		}
	}
	slices.Sort(oks)
	arrived := slices.Clone(r.counter.times)
	slices.Sort(arrived)
	s.LongestStallMS = max(longestGap(oks, r.faults, r.begin, r.end), longestGap(arrived, r.faults, r.begin, r.end)) / 1e6
	for _, d := range r.faults {
		if d.To >= r.end {
			continue
		}
		was := s.RecoveryMS[d.Kind]
		s.RecoveryMS[d.Kind] = recovery{
			Publish: max(was.Publish, (next(oks, d.To)-d.To)/1e6),
			Deliver: max(was.Deliver, (next(arrived, d.To)-d.To)/1e6),
		}
	}
}

// next is the first time at or after at, or at itself when there is none.
func next(times []int64, at int64) int64 {
	i, _ := slices.BinarySearch(times, at)
	if i == len(times) {
		return at
	}
	return times[i]
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
