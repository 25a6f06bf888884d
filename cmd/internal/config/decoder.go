package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// decoder applies layers of settings to a Config and collects what is wrong with them.
type decoder struct {
	config   *Config
	env      map[string]string
	problems []Problem

	// path is the file being read, "" outside it; from is the origin of what is being read outside a file.
	path string
	from origin
	// given are the keys seen in the layer being read.
	given map[string]origin
	// unread is set when the file could not be parsed: what it does not set is then unknown.
	unread bool
}

func (d *decoder) fail(at origin, key, format string, args ...any) {
	d.problems = append(d.problems, Problem{Where: at.String(), Key: key, Text: fmt.Sprintf(format, args...)})
}

// layer begins a new layer.
func (d *decoder) layer() { d.path, d.from, d.given = "", origin{}, map[string]origin{} }

// at is the origin of a node.
func (d *decoder) at(n *yaml.Node) origin {
	if d.path == "" {
		return d.from
	}
	return origin{file: d.path, line: n.Line}
}

func (d *decoder) defaults() {
	d.layer()
	for i := range keys {
		k := &keys[i]
		if k.Default == "" {
			continue
		}
		before := len(d.problems)
		d.text(k, origin{}, k.Default)
		if len(d.problems) > before {
			panic(fmt.Sprintf("default of %s: %s", k.Path, d.problems[before].Text))
		}
		delete(d.config.origins, k.Path)
	}
}

// file applies a file's contents.
func (d *decoder) file(path string, body []byte) {
	d.layer()
	d.path = path
	defer func() { d.path = "" }()
	var doc yaml.Node
	if err := parseYAML(body, &doc); err != nil {
		line, text := yamlProblem(err)
		d.fail(origin{file: path, line: line}, "", "%s", text)
		d.unread = true
		return
	}
	if doc.Kind == 0 || len(doc.Content) == 0 || isNull(doc.Content[0]) {
		d.config.Warnings = append(d.config.Warnings, fmt.Sprintf("configuration file %s sets nothing", path))
		return
	}
	d.section("", doc.Content[0])
}

var yamlLine = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?(.*)$`)

var parserComplaint = regexp.MustCompile(`^did not find expected (<document start>|'-' indicator|key|node content|',' or '[}\]]')`)

// yamlProblem puts a parser's complaint in our words.
func yamlProblem(err error) (line int, text string) {
	text = err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		text = m[2]
		line, _ = strconv.Atoi(m[1])
	}
	// The library counts lines from 0 in what its parser complains of, from 1 in what its scanner does.
	if line == 0 || parserComplaint.MatchString(text) {
		line++
	}
	switch {
	case strings.Contains(text, "unknown anchor"), strings.Contains(text, "alphabetic or numeric"):
		return line, "is not valid YAML (" + text + "); put a value that begins with * or & in quotes, such as \"*.*\""
	case strings.Contains(text, "expected ','"):
		return line, "is not valid YAML (" + text + "); inside braces and brackets put values with special characters in quotes, also \"${NAME}\""
	case strings.Contains(text, "cannot start any token"):
		return line, "is not valid YAML (" + text + "); indent with blanks, not tabs, and put values with special characters in quotes"
	case strings.Contains(text, "mapping values are not allowed"):
		return line, "is not valid YAML (" + text + "); check the indentation, and put values that hold a colon and a blank in quotes"
	}
	return line, "is not valid YAML: " + text
}

// section reads the mapping at path; "" is the top.
func (d *decoder) section(path string, n *yaml.Node) {
	n = target(n)
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		if path == "" {
			d.fail(d.at(n), "", "holds no keys; write key: value lines, such as\n    source:\n      url: postgres://user@host:5432/database")
		} else {
			d.fail(d.at(n), path, "must hold keys (%s), not a single value", strings.Join(children(path), ", "))
		}
		return
	}
	d.entries(path, n, func(name string, key, value *yaml.Node) {
		full := join(path, name)
		if k := lookup(full); k != nil {
			d.key(k, value)
		} else if len(children(full)) > 0 {
			d.section(full, value)
		} else {
			d.fail(d.at(key), full, "unknown key; %s", remedy(path, name))
		}
	})
}

// entries calls f for each key of a mapping; one that stands twice is an error.
func (d *decoder) entries(path string, n *yaml.Node, f func(name string, key, value *yaml.Node)) {
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name := target(key)
		if name.Kind != yaml.ScalarNode {
			d.fail(d.at(key), path, "has a key that is not a plain name")
			continue
		}
		if first, twice := lines[name.Value]; twice {
			d.fail(d.at(key), join(path, name.Value), "stands twice, first in line %d; remove one", first)
			continue
		}
		lines[name.Value] = key.Line
		f(name.Value, key, value)
	}
}

// key applies a node to a key.
func (d *decoder) key(k *Key, n *yaml.Node) {
	n = target(n)
	at := d.at(n)
	switch {
	case k.scalar != nil:
		switch {
		case n.Kind != yaml.ScalarNode:
			d.fail(at, k.Path, "must be a single value (%s)", k.Help)
		case isNull(n):
			d.fail(at, k.Path, "has no value; give it one, or remove the line")
		default:
			d.expanded(k.Path, n, func(text string) { d.scalar(k, at, text) })
		}
	case k.list != nil:
		d.listKey(k, n)
	case isNull(n):
		d.fail(at, k.Path, "has no value; give it one, or remove the line")
	default:
		d.mark(k.Path, at)
		k.tree(d, k.Path, n)
	}
}

func (d *decoder) listKey(k *Key, n *yaml.Node) {
	at := d.at(n)
	if n.Kind != yaml.SequenceNode {
		d.fail(at, k.Path, "must be a list; write %s: [\"...\"]", k.Path[strings.LastIndexByte(k.Path, '.')+1:])
		return
	}
	d.mark(k.Path, at)
	*k.list(d.config) = nil
	for _, text := range d.texts(k.Path, n) {
		if err := k.item(text); err != nil {
			d.fail(at, k.Path, "%v", err)
			continue
		}
		*k.list(d.config) = append(*k.list(d.config), text)
	}
}

// texts gives the plain values of a sequence.
func (d *decoder) texts(path string, n *yaml.Node) []string {
	out := []string{}
	for _, item := range n.Content {
		item = target(item)
		if item.Kind != yaml.ScalarNode || isNull(item) {
			d.fail(d.at(item), path, "holds an entry that is not a plain value")
			continue
		}
		d.expanded(path, item, func(text string) { out = append(out, text) })
	}
	return out
}

// scalar applies a text to a key.
func (d *decoder) scalar(k *Key, from origin, text string) {
	twin := strings.TrimSuffix(k.Path, "_file")
	if twin == k.Path {
		twin += "_file"
	}
	if _, both := d.given[twin]; both {
		d.fail(from, k.Path, "is given beside %s; remove one of them", twin)
		return
	}
	d.mark(k.Path, from)
	if base := strings.TrimSuffix(k.Path, "_file"); base != k.Path && lookup(base) != nil {
		d.config.origins[base] = from
	}
	if err := k.scalar(d.config, text); err != nil {
		d.fail(from, k.Path, "%v", err)
	}
}

// expanded passes a scalar's text on with its variables replaced. Only files hold variables.
func (d *decoder) expanded(path string, n *yaml.Node, f func(text string)) {
	text := n.Value
	if d.path != "" {
		var err error
		if text, err = expand(n.Value, d.env); err != nil {
			d.fail(d.at(n), path, "%v", err)
			return
		}
	}
	f(text)
}

func (d *decoder) mark(path string, at origin) {
	d.given[path] = at
	d.config.origins[path] = at
}

func lookup(path string) *Key {
	for i := range keys {
		if keys[i].Path == path {
			return &keys[i]
		}
	}
	return nil
}

// children are the names that may stand below path.
func children(path string) []string {
	var out []string
	for _, k := range keys {
		rest, below := k.Path, path == ""
		if !below {
			rest, below = strings.CutPrefix(k.Path, path+".")
		}
		if !below {
			continue
		}
		name, _, _ := strings.Cut(rest, ".")
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// remedy says what an unknown key may have meant.
func remedy(path, name string) string {
	if near := nearest(name, children(path)); near != "" {
		return "did you mean " + join(path, near) + "?"
	}
	for _, k := range keys {
		if last := k.Path[strings.LastIndexByte(k.Path, '.')+1:]; last == name && k.Path != name {
			return "did you mean " + k.Path + "?"
		}
	}
	if path == "" {
		return "known are " + strings.Join(children(""), ", ")
	}
	return "known below " + path + " are " + strings.Join(children(path), ", ")
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// target follows an alias to what it stands for.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }
