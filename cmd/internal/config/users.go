package config

import (
	"strings"

	"gopkg.in/yaml.v3"
)

var userKeys = []string{"password", "password_file"}

// users reads who may query.
func (d *decoder) users(path string, n *yaml.Node) {
	d.config.Query.Users = nil
	if n.Kind != yaml.MappingNode {
		d.fail(d.at(n), path, "must map names to passwords; write users: {analyst: {password_file: /etc/streambed/analyst}}")
		return
	}
	users := map[string]string{}
	d.entries(path, n, func(name string, key, value *yaml.Node) {
		if name == "" || len(name) > 63 || strings.ContainsRune(name, 0) {
			d.fail(d.at(key), path, "%q cannot be a user's name, which has 1 to 63 bytes", name)
			return
		}
		if password, ok := d.user(join(path, name), target(value)); ok {
			users[name] = password
		}
	})
	d.config.Query.Users = users
}

func (d *decoder) user(path string, n *yaml.Node) (password string, ok bool) {
	before := len(d.problems)
	if n.Kind != yaml.MappingNode {
		d.fail(d.at(n), path, "must hold password_file or password; write {password_file: /etc/streambed/analyst}")
		return "", false
	}
	given := 0
	d.entries(path, n, func(name string, key, value *yaml.Node) {
		full := join(path, name)
		value = target(value)
		switch {
		case name != "password" && name != "password_file":
			said := "known are " + strings.Join(userKeys, ", ")
			if near := nearest(name, userKeys); near != "" {
				said = "did you mean " + near + "?"
			}
			d.fail(d.at(key), full, "unknown key; %s", said)
		case value.Kind != yaml.ScalarNode || isNull(value):
			d.fail(d.at(value), full, "must be a single value")
		default:
			given++
			d.expanded(full, value, func(text string) {
				password = text
				if name == "password_file" {
					var err error
					if password, err = readSecret(text); err != nil {
						d.fail(d.at(value), full, "%v", err)
					}
				}
			})
		}
	})
	switch {
	case len(d.problems) > before:
	case given == 0:
		d.fail(d.at(n), path, "has no password; add password_file")
	case given == 2:
		d.fail(d.at(n), path, "has both password and password_file; remove one of them")
	case password == "":
		d.fail(d.at(n), path, "has an empty password")
	}
	return password, len(d.problems) == before
}
