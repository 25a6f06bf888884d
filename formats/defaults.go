package formats

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/streambed/streambed/formats/types"
)

// Defaults gives what columns read in files from before they were added, by field id, each an array of one value. release
// frees them; it is nil only with an error.
func (s *Schema) Defaults() (defaults map[int]arrow.Array, release func(), err error) {
	defaults = map[int]arrow.Array{}
	release = func() {
		for _, a := range defaults {
			a.Release()
		}
	}
	for _, c := range s.Columns {
		if c.Default == nil {
			continue
		}
		value, err := types.ParseDefault(c.Source, c.Type, *c.Default)
		if err != nil {
			release()
			return nil, nil, fmt.Errorf("the default of column %q: %w", c.Name, err)
		}
		defaults[c.ID] = value
	}
	return defaults, release, nil
}
