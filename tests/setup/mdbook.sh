#!/usr/bin/env bash
# Prints the path of mdbook. Builds and installs it into the cache if it is missing: some minutes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/say.sh"
version=0.5.4
folder=${RANKSCOPE_CACHE:-$HOME/.cache/rankscope}/mdbook-$version

if found=$(command -v mdbook); then
    echo "$found"
    exit
fi
if [ ! -x "$folder/bin/mdbook" ]; then
    say "installing mdbook $version in $folder"
    if ! cargo install --quiet --locked --version "$version" --root "$folder" mdbook >&2; then
        skip "mdbook could not be installed"
        exit 1
    fi
fi
echo "$folder/bin/mdbook"
