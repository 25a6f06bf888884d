// Package cached finds the servers that deploy/testservers.sh fetched for tests and benchmarks.
package cached

import (
	"os"
	"path/filepath"
)

// Path is the place of a cached file or folder, such as "versitygw-v1.8.0/versitygw", or "" when it is not there.
func Path(name string) string {
	folder, err := folder()
	if err != nil {
		return ""
	}
	path := filepath.Join(folder, filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// folder is the script's: root's own cache could not be read by the account that Postgres runs under.
func folder() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/cache/streambed", nil
	}
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "streambed"), nil
}
