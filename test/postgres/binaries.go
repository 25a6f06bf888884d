package postgres

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/streambed/streambed/test/cached"
)

// ErrNoBinaries says that this machine has no Postgres server to start.
var ErrNoBinaries = errors.New("no Postgres server binaries found: install one (for example Debian's postgresql package) or set STREAMBED_PG_BIN to the folder that holds initdb and postgres")

// Binaries finds the folder that holds initdb and postgres. A version such as "17" asks for that major version; "" takes
// STREAMBED_PG_BIN, then the newest of /usr/lib/postgresql/*/bin, then pg_config --bindir, then PATH. Last come the ones
// that deploy/testservers.sh fetched. The error wraps ErrNoBinaries.
func Binaries(version string) (string, error) {
	if dir := os.Getenv("STREAMBED_PG_BIN"); dir != "" && version == "" {
		if !usable(dir) {
			return "", fmt.Errorf("STREAMBED_PG_BIN is %s, which does not hold initdb and postgres: %w", dir, ErrNoBinaries)
		}
		return dir, nil
	}
	var dirs []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/opt/homebrew/opt/postgresql@*/bin"} {
		found, _ := filepath.Glob(pattern)
		dirs = append(dirs, found...)
	}
	slices.SortFunc(dirs, func(a, b string) int { return major(b) - major(a) })
	if out, err := exec.Command("pg_config", "--bindir").Output(); err == nil {
		dirs = append(dirs, strings.TrimSpace(string(out)))
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	for _, name := range []string{"postgres-18/bin", "postgres-17/bin"} {
		if dir := cached.Path(name); dir != "" {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range dirs {
		if usable(dir) && (version == "" || strconv.Itoa(major(dir)) == version) {
			return dir, nil
		}
	}
	if version != "" {
		return "", fmt.Errorf("Postgres %s is not installed: %w", version, ErrNoBinaries)
	}
	return "", ErrNoBinaries
}

func usable(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.IsDir() {
			return false
		}
	}
	return true
}

// major reads the version out of a folder's name ("/usr/lib/postgresql/15/bin", "/usr/pgsql-15/bin"); 0 when it has none.
func major(dir string) int {
	name := filepath.Base(filepath.Dir(dir))
	name = name[strings.LastIndexAny(name, "-@")+1:]
	n, _ := strconv.Atoi(name)
	return n
}

// environment is what the programs in a folder are started with: those that were not installed by the system find the
// libraries of their libraries in a folder beside theirs.
func environment(bin string) []string {
	env := os.Environ()
	lib := filepath.Join(filepath.Dir(bin), "lib")
	if strings.HasPrefix(bin, "/usr/") || strings.HasPrefix(bin, "/opt/") {
		return env
	}
	if info, err := os.Stat(lib); err != nil || !info.IsDir() {
		return env
	}
	if also := os.Getenv("LD_LIBRARY_PATH"); also != "" {
		lib += string(os.PathListSeparator) + also
	}
	return append(env, "LD_LIBRARY_PATH="+lib)
}
