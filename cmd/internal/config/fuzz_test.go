package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gopkg.in/yaml.v3"
)

// FuzzConfig: no file makes loading panic; what is wrong comes as an *Error with a text in every problem, and what is
// accepted is complete.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{minimal, "", "a: &a [*a]", "source: &s {url: *s}", "? [a]\n: b", "<<: {a: b}", "x: !!binary aGk=",
		minimal + "tables: [{name: public.x, partition_by: ['bucket(3, \"a\")'], numeric: {a: string}}]\nquery: {users: {a: {password: b}}}",
		"source: {url: '${HOME}'}", "%YAML 1.1\n---\n", "a: b: c", "\"\\x", "{", "- - - -", "flush: {rows: 0x7f, interval: 1e9s}"} {
		f.Add([]byte(seed))
	}
	folder := f.TempDir()
	path := filepath.Join(folder, "pipeline.yaml")
	f.Fuzz(func(t *testing.T, body []byte) {
		// Values may name files to read; keep the fuzzer from opening what it comes up with.
		for _, k := range []string{"_file"} {
			if containsFold(body, k) {
				t.Skip()
			}
		}
		if err := os.WriteFile(path, body, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(path, []string{"HOME=/root"}, nil)
		if err != nil {
			var problems *Error
			if !errors.As(err, &problems) || len(problems.Problems) == 0 {
				t.Fatalf("error %v (%T)", err, err)
			}
			for _, p := range problems.Problems {
				if p.Text == "" {
					t.Fatalf("a problem without a text: %+v", p)
				}
			}
			return
		}
		if c.Source.URL == "" || c.Source.Slot == "" || c.Flush.Interval <= 0 || c.Memory <= 0 || len(c.Source.Tables) == 0 {
			t.Fatalf("incomplete: %+v", c)
		}
		c.Unsupported()
	})
}

func containsFold(body []byte, word string) bool {
	for i := 0; i+len(word) <= len(body); i++ {
		if string(body[i:i+len(word)]) == word {
			return true
		}
	}
	return false
}

// FuzzPattern: a table's name in quotes reads back as itself.
func FuzzPattern(f *testing.F) {
	for _, seed := range []string{"public.*", `public."a.b"`, `"a""b".c`, "", "."} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePattern(text)
		if err != nil {
			return
		}
		if p.Schema.Text == "" || p.Table.Text == "" {
			t.Fatalf("%q has an empty part: %+v", text, p)
		}
		if _, err := parseTransform(text); err == nil {
			_, _ = parseSort(text)
		}
	})
}

// FuzzYAML: the parser's own panics come back as errors.
func FuzzYAML(f *testing.F) {
	f.Add([]byte("a: b"))
	f.Fuzz(func(t *testing.T, body []byte) {
		var doc yaml.Node
		_ = parseYAML(body, &doc)
	})
}
