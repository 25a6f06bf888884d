package config

import "strings"

// nearest gives the candidate that a misspelt word most likely meant, or "" when none is near.
func nearest(word string, candidates []string) string {
	best, bestDistance := "", len(word)/3+1
	if bestDistance > 3 {
		bestDistance = 3
	}
	plain := strings.ToLower(strings.ReplaceAll(word, "-", "_"))
	for _, c := range candidates {
		if plain == strings.ToLower(c) {
			return c
		}
		if d := distance(plain, strings.ToLower(c)); d < bestDistance || d == bestDistance && best == "" {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts the letters to insert, remove, replace or swap with their neighbour to make b of a.
func distance(a, b string) int {
	// Keys are short; a long word is near to none of them.
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
