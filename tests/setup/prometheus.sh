#!/usr/bin/env bash
# Prints a folder with `prometheus` and `promtool`. Unpacks Debian's package if they are missing (about 50 MB to fetch) in
# ${XDG_CACHE_HOME:-~/.cache}/rankscope/prometheus. It is not installed: that would start a service.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/say.sh"

if found=$(command -v promtool) && command -v prometheus >/dev/null; then
    dirname "$found"
    exit 0
fi
folder=${XDG_CACHE_HOME:-$HOME/.cache}/rankscope/prometheus
mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9
if ! "$folder/usr/bin/promtool" --version >/dev/null 2>&1; then
    say "fetching Prometheus into $folder"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    chmod 755 "$work"
    rm -rf "$folder"
    if ! (cd "$work" && { apt-get -qq download prometheus || { apt-get -qq update && apt-get -qq download prometheus; }; }) >&2 ||
        ! dpkg-deb -x "$work"/prometheus_*.deb "$folder" >&2 ||
        ! "$folder/usr/bin/promtool" --version >/dev/null 2>&1; then
        skip "Prometheus could not be fetched"
        exit 1
    fi
fi
echo "$folder/usr/bin"
