#!/usr/bin/env bash
# Prints a Python with scipy and statsmodels, against which comparisons are checked. Installs it if it is missing (about
# 250 MB) in ${XDG_CACHE_HOME:-~/.cache}/rankscope/scipy.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/say.sh"
venv=${XDG_CACHE_HOME:-$HOME/.cache}/rankscope/scipy

has_scipy() {
    (cd / && "$venv/bin/python" -c 'import scipy.stats, statsmodels.stats.multitest') >/dev/null 2>&1
}

mkdir -p "$(dirname "$venv")"
exec 9>"$venv.lock"
flock 9
if ! has_scipy; then
    say "installing scipy and statsmodels in $venv"
    if ! python3 -m venv "$venv" >&2 ||
        ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check scipy statsmodels >&2 ||
        ! has_scipy; then
        skip "scipy and statsmodels could not be installed"
        exit 1
    fi
fi
echo "$venv/bin/python"
