#!/usr/bin/env bash
# Merge and export of synthetic DDP logs of 8 ranks: operations/s per core, slices/s, and peak memory by length.
#   tests/benchmarks/merge.sh [OPERATIONS…]      default: 100000 1000000 10000000
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cargo build --locked --quiet --release -p rankscope --examples
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
[ $# -gt 0 ] || set -- 100000 1000000 10000000
for operations in "$@"; do
  target/release/examples/synthetic "$work/run" "$operations" 8
  target/release/examples/merge_bench "$work/run" "$work/session"
  if [ "$operations" -le 1000000 ]; then
    target/release/examples/merge_bench "$work/run" "$work/session" "$work/trace.pftrace" | tail -n 1
  fi
  rm -rf "$work"/run "$work"/session "$work"/trace.pftrace
done
