package main

import (
	"slices"
	"strings"
)

// didYouMean returns a hint that names the candidate nearest to name, or nothing when none
// is near. prefix and the optional spelling say how the candidate is written for the user.
func didYouMean(name string, candidates []string, prefix string, spell ...func(string) string) string {
	best, bestDistance := "", max(len(name)/2, 2)+1
	for _, c := range slices.Sorted(slices.Values(candidates)) {
		d := editDistance(strings.ToLower(name), c)
		if strings.HasPrefix(c, name) && len(name) > 2 {
			d = 1
		}
		if d < bestDistance {
			best, bestDistance = c, d
		}
	}
	if best == "" {
		return ""
	}
	for _, s := range spell {
		best = s(best)
	}
	return ", did you mean " + prefix + best + "?"
}

// editDistance is the Levenshtein distance in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
