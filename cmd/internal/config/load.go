package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"gopkg.in/yaml.v3"
)

// RegisterFlags defines --config and the flags of the keys on fs; with names, only those of the named flags.
func RegisterFlags(fs *pflag.FlagSet, names ...string) {
	fs.StringP("config", "c", "", "configuration file (pipeline.yaml); also STREAMBED_CONFIG")
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	for _, k := range keys {
		if k.Flag != "" && (len(names) == 0 || wanted[k.Flag]) {
			fs.String(k.Flag, "", fmt.Sprintf("%s (%s)", k.Help, k.Path))
		}
	}
}

// Load reads the configuration of a pipeline: the file at path (none when it is ""), env as of os.Environ, and the
// flags that were given on flags (nil for none). Its error is an *Error with everything that is wrong, passwords left
// out; source.url must be given. It reads the files named by *_file keys, and nothing else.
func Load(path string, env []string, flags *pflag.FlagSet) (*Config, error) {
	return load(path, env, flags, true)
}

// LoadLake is Load for a program that reads the lake only: source.url may be missing.
func LoadLake(path string, env []string, flags *pflag.FlagSet) (*Config, error) {
	return load(path, env, flags, false)
}

func load(path string, env []string, flags *pflag.FlagSet, needSource bool) (*Config, error) {
	d := &decoder{config: &Config{origins: map[string]origin{}}, env: environment(env)}
	d.defaults()
	if path == "" {
		path = d.env["STREAMBED_CONFIG"]
	}
	if path != "" {
		body, err := os.ReadFile(path)
		if err != nil {
			d.fail(origin{}, "", "%s", unreadable(path, err))
			return nil, &Error{d.problems}
		}
		d.config.Path = path
		d.file(path, body)
	}
	d.environment(env)
	if flags != nil {
		d.flags(flags)
	}
	d.derive()
	d.check(needSource)
	if len(d.problems) > 0 {
		return nil, &Error{d.problems}
	}
	return d.config, nil
}

func unreadable(path string, err error) string {
	info, statErr := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Sprintf("configuration file %s does not exist; create it, or name another with --config", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Sprintf("configuration file %s may not be read by this user; change its owner or mode", path)
	case statErr == nil && info.IsDir():
		return fmt.Sprintf("configuration %s is a folder; name the file in it with --config", path)
	}
	return fmt.Sprintf("configuration file %s cannot be read: %v", path, err)
}

// environment makes a map of KEY=value entries; of repeated ones the last counts.
func environment(env []string) map[string]string {
	out := make(map[string]string, len(env))
	for _, entry := range env {
		if name, value, ok := strings.Cut(entry, "="); ok {
			out[name] = value
		}
	}
	return out
}

// otherVariables belong to Streambed, but not to the configuration's keys.
var otherVariables = map[string]bool{
	"STREAMBED_CONFIG": true, "STREAMBED_FAILPOINT": true,
	// Known to the tests, which start us with their own environment.
	"STREAMBED_SELFTEST": true, "STREAMBED_KEEP": true, "STREAMBED_PG_BIN": true,
}

// environment applies the STREAMBED_* variables, in the order of the keys so that messages are in a stable order.
func (d *decoder) environment(env []string) {
	known := map[string]bool{}
	var names []string
	d.layer()
	for i := range keys {
		k := &keys[i]
		name := k.Env()
		known[name] = true
		names = append(names, name)
		if value, set := d.env[name]; set {
			d.text(k, origin{env: name}, value)
		}
	}
	for _, entry := range env {
		name, _, _ := strings.Cut(entry, "=")
		suffix, ours := strings.CutPrefix(name, "STREAMBED_")
		if !ours || known[name] || otherVariables[name] || suffix == "" {
			continue
		}
		// A container platform may set variables of its own for a service that is called streambed; only what looks
		// like a misspelt key is an error.
		if near := nearest(name, names); near != "" {
			d.fail(origin{env: name}, "", "unknown variable; did you mean %s?", near)
		} else {
			d.config.Warnings = append(d.config.Warnings, fmt.Sprintf("environment variable %s is not a setting of Streambed and has no effect", name))
		}
	}
}

func (d *decoder) flags(flags *pflag.FlagSet) {
	d.layer()
	for i := range keys {
		k := &keys[i]
		if k.Flag == "" {
			continue
		}
		if f := flags.Lookup(k.Flag); f != nil && f.Changed {
			d.text(k, origin{flag: k.Flag}, f.Value.String())
		}
	}
}

// text applies a value given as one string: lists are comma-separated or YAML, trees are YAML.
func (d *decoder) text(k *Key, from origin, value string) {
	switch {
	case k.scalar != nil:
		d.scalar(k, from, value)
	case k.list != nil && !strings.HasPrefix(strings.TrimSpace(value), "["):
		items := splitList(value)
		nodes := make([]*yaml.Node, len(items))
		for i, item := range items {
			nodes[i] = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: item}
		}
		d.from = from
		d.key(k, &yaml.Node{Kind: yaml.SequenceNode, Content: nodes})
	default:
		var doc yaml.Node
		if err := parseYAML([]byte(value), &doc); err != nil || len(doc.Content) == 0 {
			d.fail(from, k.Path, "is not valid YAML; write the value as it would stand in the file, in one line")
			return
		}
		d.from = from
		d.key(k, doc.Content[0])
	}
}

// splitList splits at commas outside double quotes, and drops blanks around items.
func splitList(text string) []string {
	var items []string
	quoted, start := false, 0
	add := func(item string) {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '"':
			quoted = !quoted
		case text[i] == ',' && !quoted:
			add(text[start:i])
			start = i + 1
		}
	}
	add(text[start:])
	return items
}
