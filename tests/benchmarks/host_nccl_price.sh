#!/usr/bin/env bash
# Measures the price of ncclAllReduce in the real NCCL (tests/host-nccl): alone, with recorded calls, and with the
# profiler plugin also. Runs the three in turns and prints ratios. Usage: host_nccl_price.sh [TURNS] [VERSION...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
turns=${1:-5}
[ $# -eq 0 ] || shift
cargo build --locked --quiet --release -p rankscope-interpose
library=$(realpath "${CARGO_TARGET_DIR:-target}/release/librankscope.so")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Prints "KIND SMALLEST MEDIAN" for each rank.
measure() {
    local kind=$1
    shift
    env TRUTH_DIR="$work" RANKSCOPE_LIVE_DIR=/dev/shm "$@" tests/host-nccl/run.sh "$directory" 2 price 2>&1 >/dev/null |
        sed -n "s/^price/$kind/p"
}

for directory in $(tests/setup/host_nccl.sh "$@"); do
    for ((turn = 0; turn < turns; turn++)); do
        rm -rf "$work/run" && mkdir "$work/run"
        measure alone
        measure calls LD_PRELOAD="$library" RANKSCOPE_DIR="$work/run" NCCL_PROFILER_PLUGIN=none
        measure plugin LD_PRELOAD="$library" RANKSCOPE_DIR="$work/run"
        # Two runs of two ranks. A library that was not loaded would cost nothing.
        [ "$(find "$work/run" -name '*.rslog' | wc -l)" -eq 4 ]
    done >"$work/prices"
    python3 - "$work/prices" "${directory##*/}" <<'PYTHON'
import statistics
import sys

prices = {}
for line in open(sys.argv[1]):
    kind, smallest, median = line.split()
    prices.setdefault(kind, []).append((float(smallest), float(median)))
alone = [min(one[0] for one in prices["alone"]), statistics.median(one[1] for one in prices["alone"])]
print(f"NCCL {sys.argv[2]}: alone {alone[0]:.0f} ns at least, {alone[1]:.0f} ns in the median")
for kind in ("calls", "plugin"):
    smallest = min(one[0] for one in prices[kind])
    median = statistics.median(one[1] for one in prices[kind])
    print(f"  {kind} / alone: {smallest / alone[0]:.3f} at least, {median / alone[1]:.3f} in the median")
PYTHON
done
