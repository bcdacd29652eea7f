#!/usr/bin/env bash
# Measures the cost of the viewer (viewer/examples/viewer_bench.rs): frames, memory, first picture, selections, and the
# index that it reads. Also measures the time from raw logs to the first picture. For comparison, the Perfetto
# engine (from npm) imports the trace of the same run.
#   tests/benchmarks/viewer.sh                     10^7 spans of 8 and of 64 ranks, 10^8 of 64, 10^7 of 4,096
#   tests/benchmarks/viewer.sh RANKS:OPERATIONS…   other sizes; an operation has about 4.6 spans
# WORK=DIRECTORY must have capacity for logs and sessions: about 40 bytes per operation, and 250 for Perfetto's trace.
# PERFETTO_OPERATIONS (2200000): the engine, which has at most 4 GB, is not used for larger runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cargo build --locked --quiet --release -p rankscope --bins --examples
cargo build --locked --quiet --release -p rankscope-viewer --bins --examples
target=${CARGO_TARGET_DIR:-target}/release
programs=$target/examples
work=$(mktemp -d -p "${WORK:-${TMPDIR:-/tmp}}")
trap 'rm -rf "$work"' EXIT
seconds() {
  local begin=$EPOCHREALTIME
  "$@" >"$work/output" 2>&1 || { cat "$work/output"; return 1; }
  awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }'
}
[ $# -gt 0 ] || set -- 8:2200000 64:2200000 64:21600000 4096:2200000
for size in "$@"; do
  operations=${size#*:}
  echo "== $size"
  "$programs/synthetic" "$work/run" "$operations" "${size%:*}"
  merge=$(seconds "$programs/merge_bench" "$work/run" "$work/session")
  head -n 1 "$work/output"
  "$programs/index_bench" "$work/session"
  echo "warm:" && "$programs/viewer_bench" "$work/session"
  echo "cold:" && "$programs/viewer_bench" "$work/session" --cold --first
  rm -rf "$work/session/view"
  echo "cold, no index stored:" && "$programs/viewer_bench" "$work/session" --cold --first
  picture=$(seconds "$target/rankscope-viewer" "$work/session" --screenshot "$work/picture.png" --size 1920x1080)
  tests/benchmarks/painted_frame.sh "$work/session" || echo "no painted frames: it takes Xvfb and xdotool"
  if [ "$operations" -le "${PERFETTO_OPERATIONS:-2200000}" ] && command -v node >/dev/null; then
    export=$(seconds "$target/rankscope" export --perfetto "$work/session" -o "$work/trace.pftrace" --max-bytes 8G)
    bytes=$(stat -c %s "$work/trace.pftrace")
    engine=$(node tests/perfetto-engine/import_time.mjs 1 "$work/trace.pftrace" 2>"$work/output" || tail -n 1 "$work/output")
    echo "from the same raw logs: merge $merge s, then picture $picture s; or export $export s ($bytes bytes), engine $engine s"
  else
    echo "from raw logs: merge $merge s, then picture $picture s"
  fi
  rm -rf "$work/run" "$work/session" "$work/trace.pftrace"
done
