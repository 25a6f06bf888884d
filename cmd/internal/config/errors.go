package config

import (
	"fmt"
	"strings"
)

// Problem is one thing wrong with a configuration.
type Problem struct {
	// Where is the file and line, the variable or the flag.
	Where string
	// Key is the dotted path of the key; "" when the problem is with the file as a whole.
	Key string
	// Text says what is wrong and what to do.
	Text string
}

func (p Problem) String() string {
	switch {
	case p.Where == "" && p.Key == "":
		return p.Text
	case p.Where == "":
		return p.Key + ": " + p.Text
	case p.Key == "":
		return p.Where + ": " + p.Text
	}
	return p.Where + ": " + p.Key + ": " + p.Text
}

// Error is everything found wrong with a configuration, in the order in which it was found; never empty.
type Error struct {
	Problems []Problem
}

// Error gives a problem a line.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// origin says where a value came from.
type origin struct {
	// file and line, or env, or flag; none for a default.
	file string
	line int
	env  string
	flag string
}

func (o origin) String() string {
	switch {
	case o.flag != "":
		return "--" + o.flag
	case o.env != "":
		return o.env
	case o.file != "":
		return fmt.Sprintf("%s:%d", o.file, o.line)
	}
	return ""
}

// Where says where the value of the key at path came from: "pipeline.yaml:7", "STREAMBED_LAKE_MODE", "--flush-rows", or
// "" when it is the default.
func (c *Config) Where(path string) string { return c.origins[path].String() }
