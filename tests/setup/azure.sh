#!/usr/bin/env bash
# Installs Microsoft's emulator of Azure Blob Storage from npm (400 MB), for `make test-azure`. Prints its folder.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/say.sh"
folder=$here/../azure-emulator

if ! command -v npm >/dev/null; then
    skip "the emulator of Azure: no npm"
    exit 1
fi
if ! [ "$folder/node_modules/.package-lock.json" -nt "$folder/package-lock.json" ]; then
    say "installing the emulator of Azure"
    (cd "$folder" && npm ci --no-audit --no-fund >&2)
fi
(cd "$folder" && pwd)
