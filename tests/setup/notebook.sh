#!/usr/bin/env bash
# Prints a Python with the packages that read sessions: pyarrow, pandas, polars, matplotlib, and those that check types and run
# notebooks. It is made in ${XDG_CACHE_HOME:-~/.cache}/rankscope/notebook (about 700 MB).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/say.sh"

packages="pyarrow==26.0.1 pandas==3.1.1 polars==2.1.0 matplotlib==3.11.2 mypy==2.4.1 nbclient==0.11.0 ipykernel==7.4.0"
folder=${XDG_CACHE_HOME:-$HOME/.cache}/rankscope/notebook
mkdir -p "$(dirname "$folder")"
exec 9>"$folder.lock"
flock 9
if [ "$(cat "$folder/packages" 2>/dev/null)" != "$packages" ]; then
    say "installing packages that read sessions into $folder"
    rm -rf "$folder"
    # shellcheck disable=SC2086
    if ! python3 -m venv "$folder" >&2 || ! "$folder/bin/pip" install --quiet --no-compile $packages >&2; then
        skip "the packages that read sessions could not be installed"
        exit 1
    fi
    echo "$packages" >"$folder/packages"
fi
echo "$folder/bin/python"
