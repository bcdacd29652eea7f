#!/usr/bin/env bash
# Measures the cost of a merge: records and operations per second and core, and peak memory. Logs are synthetic.
#   tests/benchmarks/merge.sh [OPERATIONS…]          a DDP job of 8 ranks: three sizes, 10^5 to 10^7
#   tests/benchmarks/merge.sh ranks [OPERATIONS…]    the same job with 1,024 ranks: three sizes, up to 10^4 each
#   tests/benchmarks/merge.sh kernels [WORKS…]       device works of 8 ranks: three sizes, up to 10^6 each
# BESIDE=PROGRAM names a merge_bench of another commit: both then run alternately, TURNS times (3).
# WORK=DIRECTORY must have capacity for logs and sessions: about 25 bytes per operation.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cargo build --locked --quiet --release -p rankscope --examples
programs=${CARGO_TARGET_DIR:-target}/release/examples
work=$(mktemp -d -p "${WORK:-${TMPDIR:-/tmp}}")
trap 'rm -rf "$work"' EXIT
case ${1:-} in
  ranks) shift && make="synthetic" ranks=1024 sizes="102400 1024000 10240000" ;;
  kernels) shift && make="synthetic_kernels" ranks=8 sizes="80000 800000 8000000" ;;
  *) make="synthetic" ranks=8 sizes="100000 1000000 10000000" ;;
esac
[ $# -gt 0 ] || read -ra sizes <<<"$sizes"
[ $# -gt 0 ] || set -- "${sizes[@]}"
turns=1
[ -z "${BESIDE:-}" ] || turns=${TURNS:-3}
for size in "$@"; do
  "$programs/$make" "$work/run" "$size" "$ranks"
  for ((turn = 0; turn < turns; turn++)); do
    if [ -n "${BESIDE:-}" ]; then
      echo "beside:" && "$BESIDE" "$work/run" "$work/session" | grep -E "operations,|works of devices"
    fi
    "$programs/merge_bench" "$work/run" "$work/session"
    echo "  session.json: $(stat -c %s "$work/session/session.json") bytes"
  done
  if [ "$size" -le 1000000 ]; then
    "$programs/merge_bench" "$work/run" "$work/session" "$work/trace.pftrace" | tail -n 1
  fi
  rm -rf "$work"/run "$work"/session "$work"/trace.pftrace
done
