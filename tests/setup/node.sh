#!/usr/bin/env bash
# Installs the real Perfetto engine that the export is tested with (tests/perfetto-engine).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/say.sh"
engine=$here/../perfetto-engine

if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
    skip "the Perfetto engine: no node and npm"
    exit 0
fi
if [ "$(node -p 'parseInt(process.versions.node)')" -lt 20 ]; then
    skip "the Perfetto engine: node $(node --version) is older than 20"
    exit 0
fi
# npm writes this file last; newer than the lock file means installed.
if [ "$engine/node_modules/.package-lock.json" -nt "$engine/package-lock.json" ]; then
    exit 0
fi
say "installing the Perfetto engine"
(cd "$engine" && npm ci --no-audit --no-fund >&2)
