#!/usr/bin/env bash
# Measures the cost of a comparison, and how often it is wrong.
#   tests/benchmarks/compare.sh                  two synthetic sessions of 10^6 operations each, and two of 1,024
#                                                ranks: time and memory
#   tests/benchmarks/compare.sh study [RUNS]     records RUNS (200) runs of the demo's job on two ranks and resamples
#                                                them: false alarms of A/A pairs, and the share of changes of the
#                                                printed size that are found
# WORK=DIRECTORY must have capacity for logs and sessions. It keeps the recorded runs for another study.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cargo build --locked --quiet --release -p rankscope -p rankscope-interpose
program=${CARGO_TARGET_DIR:-target}/release/rankscope
examples=${CARGO_TARGET_DIR:-target}/release/examples

if [ "${1:-}" = study ]; then
    runs=${2:-200}
    work=${WORK:-$(mktemp -d)}
    python=$(tests/setup/python.sh any)
    export OMP_NUM_THREADS=1 SLOW=none STEPS="${STEPS:-40}"
    for ((run = 1; run <= runs; run++)); do
        [ ! -d "$work/run-$run" ] || continue
        "$program" run --no-merge -o "$work/run-$run" -- \
            "$python" -m torch.distributed.run --standalone --nproc_per_node 2 examples/ddp/train.py >"$work/last.log" 2>&1
        "$program" merge --only-session "$work/run-$run" >>"$work/last.log" 2>&1
        printf '\r%d of %d runs' "$run" "$runs" >&2
    done
    cargo build --locked --quiet --release -p rankscope --example compare_study
    for side in 5 10 20; do
        "$examples/compare_study" "$work" --runs "$side" --pairs 1000
    done
    exit
fi

cargo build --locked --quiet --release -p rankscope --example synthetic
work=$(mktemp -d -p "${WORK:-${TMPDIR:-/tmp}}")
trap 'rm -rf "$work"' EXIT
measured() {
    local name=$1
    shift
    # The first run warms the page cache.
    "$program" compare --json "$@" >"$work/comparison.json" || [ $? -ne 2 ]
    /usr/bin/time -f "$name: %e s, %M KiB at most" "$program" compare --json "$@" >"$work/comparison.json" || [ $? -ne 2 ]
    jq -r '"  " + .headline' "$work/comparison.json"
}
for size in "1000000 8" "1024000 1024" "10240000 1024"; do
    read -r operations ranks <<<"$size"
    for side in base new; do
        "$examples/synthetic" "$work/$side" "$operations" "$ranks" $((RANDOM))
        "$program" merge --only-session "$work/$side" >/dev/null 2>&1
    done
    measured "$operations operations of $ranks ranks a side" "$work/base" -- "$work/new"
    rm -rf "$work/base" "$work/new"
done
