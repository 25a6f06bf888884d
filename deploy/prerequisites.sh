#!/usr/bin/env bash
# Sees to what building and testing need besides Go: a C++ compiler (DuckDB is linked in) and a Postgres server, which
# tests and the demo start privately. Installs what is missing with apt when it runs as root, else says how.
set -euo pipefail

has_postgres() {
	local folder
	for folder in ${STREAMBED_PG_BIN:+"$STREAMBED_PG_BIN"} /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql@*/bin \
		"$(pg_config --bindir 2>/dev/null || true)" "$(dirname "$(command -v initdb || true)" 2>/dev/null || true)"; do
		[ -x "$folder/initdb" ] && [ -x "$folder/postgres" ] && return
	done
	return 1
}

if ! command -v go >/dev/null; then
	echo "Go is missing: install the version that go.mod names from https://go.dev/dl and put it on the PATH." >&2
	exit 1
fi
missing=()
command -v g++ >/dev/null || command -v clang++ >/dev/null || missing+=(build-essential)
has_postgres || missing+=(postgresql)
command -v psql >/dev/null || [[ " ${missing[*]-} " == *" postgresql "* ]] || missing+=(postgresql-client)
[ ${#missing[@]} -eq 0 ] && exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
	echo "Missing: ${missing[*]}. On Debian or Ubuntu install with:" >&2
	echo "    sudo apt-get update && sudo apt-get install -y ${missing[*]}" >&2
	echo "A Postgres server elsewhere is found when STREAMBED_PG_BIN names the folder of its initdb." >&2
	exit 1
fi

echo "Installing ${missing[*]} with apt-get."
# Debian's package would also create a cluster and start it; only the binaries are wanted.
quiet=/etc/postgresql-common/createcluster.d/streambed-prerequisites.conf
if [[ " ${missing[*]} " == *" postgresql "* ]]; then
	mkdir -p "$(dirname "$quiet")"
	echo 'create_main_cluster = false' >"$quiet"
	trap 'rm -f "$quiet"; rmdir --ignore-fail-on-non-empty "$(dirname "$quiet")" 2>/dev/null || true' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq </dev/null
apt-get install -y -qq --no-install-recommends "${missing[@]}" </dev/null >/dev/null
