#!/usr/bin/env bash
# What the viewer costs (viewer/examples/viewer_bench.rs): frames, memory, first picture, selections; and the index it reads.
#   tests/benchmarks/viewer.sh                     10^7 spans of 8 and of 64 ranks, 10^8 of 64, 10^7 of 4,096
#   tests/benchmarks/viewer.sh RANKS:OPERATIONS…   others; an operation is about 4.6 spans
# WORK=DIRECTORY has room for logs and sessions: about 40 bytes per operation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cargo build --locked --quiet --release -p rankscope --examples
cargo build --locked --quiet --release -p rankscope-viewer --examples
programs=${CARGO_TARGET_DIR:-target}/release/examples
work=$(mktemp -d -p "${WORK:-${TMPDIR:-/tmp}}")
trap 'rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- 8:2200000 64:2200000 64:21600000 4096:2200000
for size in "$@"; do
  "$programs/synthetic" "$work/run" "${size#*:}" "${size%:*}"
  "$programs/merge_bench" "$work/run" "$work/session" >"$work/merge"
  head -n 1 "$work/merge"
  rm -rf "$work/run"
  "$programs/index_bench" "$work/session"
  echo "warm:" && "$programs/viewer_bench" "$work/session"
  echo "cold:" && "$programs/viewer_bench" "$work/session" --cold --first
  rm -rf "$work/session"
done
