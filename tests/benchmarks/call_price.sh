#!/usr/bin/env bash
# The price of one intercepted call against its floor, in one process (tests/programs/call_price.cc). Needs libgloo-dev.
#   tests/benchmarks/call_price.sh [RUNS]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
c++ -std=c++17 -O2 -I tests/programs tests/programs/call_price.cc -o "$work/call_price" -lgloo -ldl -lpthread
for run in $(seq "${1:-3}"); do
  mkdir "$work/store$run"
  LD_PRELOAD=$PWD/target/release/librankscope.so RANKSCOPE_DIR=$work/run$run "$work/call_price" 0 1 "$work/store$run"
done
