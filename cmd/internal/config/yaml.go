package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"gopkg.in/yaml.v3"
)

// parseYAML reads the one document in body; doc stays zero when there is none.
func parseYAML(body []byte, doc *yaml.Node) (err error) {
	// The parser reports some malformed input by panicking with values it does not recover from itself.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("yaml: %v", r)
		}
	}()
	in := yaml.NewDecoder(bytes.NewReader(body))
	if err := in.Decode(doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	}
	var second yaml.Node
	switch err := in.Decode(&second); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("yaml: line %d: a second document begins here; keep one pipeline a file", second.Line)
}
