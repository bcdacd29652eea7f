#!/usr/bin/env bash
# Prints a Python with Holistic Trace Analysis, against which imports are checked. Installs it if it is missing (about
# 400 MB) in ${XDG_CACHE_HOME:-~/.cache}/rankscope/hta.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/say.sh"
venv=${XDG_CACHE_HOME:-$HOME/.cache}/rankscope/hta
# The version whose rules collector/import/src/hta.rs follows.
version=0.5.0

has_hta() {
    (cd / && "$venv/bin/python" -c 'import hta.trace_analysis') >/dev/null 2>&1
}

mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9
if ! has_hta; then
    say "installing Holistic Trace Analysis $version in $venv"
    if ! python3 -m venv "$venv" >&2 ||
        ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "HolisticTraceAnalysis==$version" >&2 ||
        ! has_hta; then
        skip "Holistic Trace Analysis could not be installed"
        exit 1
    fi
fi
echo "$venv/bin/python"
