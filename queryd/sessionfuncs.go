package queryd

import (
	"slices"

	"github.com/streambed/streambed/queryd/rewrite"
)

// currentSchema is the first schema of the search path that there is; public always is.
func (n *session) currentSchema() string {
	for _, s := range n.searchPath() {
		if s != n.user {
			return s
		}
	}
	return "public"
}

// existingPath gives the schemas of the search path that hold tables.
func (n *session) existingPath(e *environment) []string {
	var path []string
	view, err := e.view()
	for _, s := range n.searchPath() {
		exists := s == "public" || s == "information_schema" || s == "streambed"
		if err == nil && !exists {
			for i := range view.Tables {
				exists = exists || view.Tables[i].Name.Schema == s
			}
		}
		if exists && !slices.Contains(path, s) {
			path = append(path, s)
		}
	}
	return path
}

func constantText(n rewrite.Node) (string, bool) {
	value, _ := n["value"].(rewrite.Node)
	s, ok := value["value"].(string)
	return s, ok
}

func isTrue(n rewrite.Node) bool {
	if child, ok := n["child"].(rewrite.Node); ok {
		n = child
	}
	value, _ := n["value"].(rewrite.Node)
	switch v := value["value"].(type) {
	case bool:
		return v
	case string:
		return v == "t" || v == "true"
	}
	return false
}

// currentSetting answers current_setting(name [, missing_ok]) for a constant name.
func (e *environment) currentSetting(args []rewrite.Node) (rewrite.Node, error) {
	if len(args) == 0 || len(args) > 2 {
		return nil, nil
	}
	name, ok := constantText(args[0])
	if !ok {
		return nil, &rewrite.Error{State: "0A000", Message: "current_setting takes a constant name here", Position: -1}
	}
	if known[name] == nil {
		if len(args) == 2 {
			return rewrite.Null(rewrite.SimpleType("VARCHAR")), nil
		}
		return nil, failf("42704", "unrecognized configuration parameter %q", name)
	}
	return rewrite.Text(e.session.settings.get(name)), nil
}

// setConfig answers set_config(name, value, is_local): the setting is made when the statement is, before it runs.
func (e *environment) setConfig(args []rewrite.Node) (rewrite.Node, error) {
	if len(args) != 3 {
		return nil, nil
	}
	name, ok1 := constantText(args[0])
	value, ok2 := constantText(args[1])
	if e.describe && (!ok1 || !ok2) {
		return rewrite.Text(""), nil
	}
	if !ok1 || !ok2 {
		return nil, &rewrite.Error{State: "0A000", Message: "set_config takes constants here", Position: -1}
	}
	if !e.describe {
		if err := e.session.settings.set(name, []string{value}, isTrue(args[2])); err != nil {
			return nil, err
		}
	}
	return rewrite.Text(e.session.settings.get(name)), nil
}
