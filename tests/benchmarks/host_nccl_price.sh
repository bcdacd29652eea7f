#!/usr/bin/env bash
# Measures the price of ncclAllReduce in the real NCCL (tests/host-nccl): alone, with recorded calls, and with the
# profiler plugin also. With NCCL_REPOSITORY=DIR, a clone of NCCL's repository with its tags, NCCL's example plugin is
# measured beside, with the same events. Runs all of them in turns and prints ratios.
# Usage: host_nccl_price.sh [TURNS] [VERSION...]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
turns=${1:-5}
[ $# -eq 0 ] || shift
cargo build --locked --quiet --release -p rankscope-interpose
library=$(realpath "${CARGO_TARGET_DIR:-target}/release/librankscope.so")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Kinds of events that the recording requests for an all-reduce: collectives, messages, channels of kernels.
events=$((1 << 1 | 1 << 2 | 1 << 6))
# The example drops events when its pools are empty. One batch of the program is 50 calls, and a pool must hold several.
pools=()
for kind in GROUP_API COLL_API P2P_API KERNEL_LAUNCH GROUP COLL P2P PROXY_CTRL; do
    pools+=("NCCL_PROFILE_${kind}_POOL_SIZE=1024")
done

# Compiles NCCL's example plugin of a version. Prints nothing.
build_example() {
    local version=v$1-1 source
    rm -rf "$work/example" "$work/example.so" && mkdir "$work/example"
    for source in ext-profiler/example plugins/profiler/example; do
        # It was moved in 2.29.
        git -C "$NCCL_REPOSITORY" archive "$version" "$source" 2>/dev/null | tar x -C "$work/example" 2>/dev/null || continue
        local headers
        headers=$(python3 -c 'import sys; sys.path.insert(0, "tests/host-nccl/build"); import cuda_headers
print(cuda_headers.directory())')
        (
            cd "$work/example/$source"
            shopt -s nullglob
            g++ -O2 -w -fPIC -shared -I"$headers" -Inccl ./*.c ./*.cc -o "$work/example.so"
        )
        return
    done
    echo "$NCCL_REPOSITORY has no example plugin of $version" >&2
    return 1
}

# Prints "KIND SMALLEST MEDIAN" for each rank.
measure() {
    local kind=$1
    shift
    env TRUTH_DIR="$work" RANKSCOPE_LIVE_DIR=/dev/shm "$@" tests/host-nccl/run.sh "$directory" 2 price 2>&1 >/dev/null |
        sed -n "s/^price/$kind/p"
}

for directory in $(tests/setup/host_nccl.sh "$@"); do
    version=${directory##*/}
    version=${version%%-*}
    [ -z "${NCCL_REPOSITORY:-}" ] || build_example "$version"
    for ((turn = 0; turn < turns; turn++)); do
        rm -rf "$work/run" && mkdir "$work/run"
        measure alone
        measure calls LD_PRELOAD="$library" RANKSCOPE_DIR="$work/run" NCCL_PROFILER_PLUGIN=none
        measure plugin LD_PRELOAD="$library" RANKSCOPE_DIR="$work/run"
        # Two runs of two ranks. A library that was not loaded would cost nothing.
        [ "$(find "$work/run" -name '*.rslog' | wc -l)" -eq 4 ]
        if [ -n "${NCCL_REPOSITORY:-}" ]; then
            rm -f "$work"/dump*
            # The example of 2.28.9 crashes at the first call.
            measure example NCCL_PROFILER_PLUGIN="$work/example.so" NCCL_PROFILE_EVENT_MASK="$events" \
                NCCL_PROFILE_DUMP_FILE="$work/dump" "${pools[@]}" >"$work/example.prices" || true
            if [ "$(find "$work" -maxdepth 1 -name 'dump*' -size +100k | wc -l)" -eq 2 ]; then
                cat "$work/example.prices"
            else
                echo "NCCL $version: the example plugin does not finish, or records nothing" >&2
            fi
        fi
    done >"$work/prices"
    python3 - "$work/prices" "$version" <<'PYTHON'
import statistics
import sys

prices = {}
for line in open(sys.argv[1]):
    kind, smallest, median = line.split()
    prices.setdefault(kind, []).append((float(smallest), float(median)))


def price(kind):
    return min(one[0] for one in prices[kind]), statistics.median(one[1] for one in prices[kind])


alone = price("alone")
print(f"NCCL {sys.argv[2]}: alone {alone[0]:.0f} ns at least, {alone[1]:.0f} ns in the median")
for kind, base in (("calls", "alone"), ("plugin", "alone"), ("example", "alone"), ("plugin", "example")):
    if kind in prices and base in prices:
        ratios = [one / other for one, other in zip(price(kind), price(base))]
        print(f"  {kind} / {base}: {ratios[0]:.3f} at least, {ratios[1]:.3f} in the median")
PYTHON
done
