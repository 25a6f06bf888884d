package config

import (
	"fmt"
	"strings"
)

// expand replaces each ${NAME} by the environment's value; $${ stands for a plain ${. A name that is not set, or set to
// nothing legible as a name, is an error.
func expand(text string, env map[string]string) (string, error) {
	if !strings.Contains(text, "${") {
		return text, nil
	}
	var out strings.Builder
	for {
		start := strings.Index(text, "${")
		if start < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		if start > 0 && text[start-1] == '$' {
			out.WriteString(text[:start-1] + "${")
			text = text[start+2:]
			continue
		}
		end := strings.IndexByte(text[start:], '}')
		if end < 0 {
			return "", fmt.Errorf("has ${ without its closing brace; write ${NAME}, or $${ for a plain ${")
		}
		name := text[start+2 : start+end]
		if !variableName(name) {
			return "", fmt.Errorf("has ${%s}, which is not a variable's name; write ${NAME}, or $${ for a plain ${", name)
		}
		value, set := env[name]
		if !set {
			return "", fmt.Errorf("uses ${%s}, but the environment variable %s is not set; set it, or write the value here", name, name)
		}
		out.WriteString(text[:start] + value)
		text = text[start+end+1:]
	}
}

func variableName(name string) bool {
	for i, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
