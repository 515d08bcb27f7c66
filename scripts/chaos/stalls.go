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
	for _, times := range [][]int64{oks, arrived} {
		s.LongestStallMS = max(s.LongestStallMS, longestGap(times, r.faults, r.begin, r.end)/1e6)
	}
	for _, d := range r.faults {
		if d.To >= r.end {
			continue
		}
		was := s.RecoveryMS[d.Kind]
		s.RecoveryMS[d.Kind] = recovery{
			Publish: max(was.Publish, sinceFault(oks, r.faults, d.To)),
			Deliver: max(was.Deliver, sinceFault(arrived, r.faults, d.To)),
		}
	}
}

// sinceFault is how many milliseconds after a fault's end the first of the sorted times is,
// less what of that was spent in the faults that followed.
func sinceFault(times []int64, faults []done, end int64) int64 {
	first := next(times, end)
	return (first - end - within(faults, end, first)) / 1e6
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
