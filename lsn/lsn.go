// Package lsn holds Postgres' log sequence numbers and the tracker that decides how far the source may let go of
// its write-ahead log.
package lsn

import (
	"fmt"
	"strconv"
	"strings"
)

// LSN is a byte position in Postgres' write-ahead log. The zero value means "none".
type LSN uint64

// Parse reads Postgres' text form, two hexadecimal numbers of at most 32 bits with a slash between ("16/B374D848").
func Parse(s string) (LSN, error) {
	high, low, ok := strings.Cut(s, "/")
	if !ok {
		return 0, fmt.Errorf("%q is not an LSN: expected two hexadecimal numbers with a slash between, such as 16/B374D848", s)
	}
	h, err := strconv.ParseUint(high, 16, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not an LSN: %q is no hexadecimal number of at most 32 bits", s, high)
	}
	l, err := strconv.ParseUint(low, 16, 32)
	if err != nil {
		return 0, fmt.Errorf("%q is not an LSN: %q is no hexadecimal number of at most 32 bits", s, low)
	}
	return LSN(h<<32 | l), nil
}

// String gives Postgres' text form.
func (l LSN) String() string {
	return fmt.Sprintf("%X/%X", uint32(l>>32), uint32(l))
}
