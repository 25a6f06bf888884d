package catalog

import (
	"fmt"
	"strings"
)

// Functions gives the functions that are expressions: "name/arguments" to SQL.
func Functions() map[string]string {
	content, err := functionFile.ReadFile("functions.txt")
	if err != nil {
		panic(err)
	}
	functions := map[string]string{}
	for _, line := range strings.Split(string(content), "\n") {
		if line == "" || strings.HasPrefix(line, "--") {
			continue
		}
		name, expression, ok := strings.Cut(line, " = ")
		if !ok || functions[name] != "" {
			panic(fmt.Sprintf("functions.txt: %q is not name/arguments = expression, or comes twice", line))
		}
		functions[name] = expression
	}
	return functions
}
