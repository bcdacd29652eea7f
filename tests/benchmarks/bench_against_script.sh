#!/usr/bin/env bash
# Compares `rankscope bench` on Gloo with a script of PyTorch that measures the same: bench_against_script.sh [TURNS].
# Both run in turns (ABBA) with two ranks. Prints for each size the median of each, and the ratio of busbw.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
turns=${1:-4}
python=$("$root/tests/setup/python.sh" wheel)
sizes=(65536 1048576 4194304 16777216)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=lo PATH="$(dirname "$python"):$PATH"

bench() {
    "$root/target/release/rankscope" bench --backend gloo --ranks 2 --min 64K --max 16M --factor 4 --row-limit 60 \
        --operations all-reduce --placement in-place --no-record -o "$work/bench-$1" >/dev/null
}
script() {
    "$python" -m torch.distributed.run --standalone --nproc-per-node 2 "$root/tests/benchmarks/gloo_script.py" \
        "${sizes[@]}" >"$work/script-$1" 2>/dev/null
}
for ((turn = 0; turn < turns; turn++)); do
    if ((turn % 2 == 0)); then bench "$turn" && script "$turn"; else script "$turn" && bench "$turn"; fi
done
"$python" - "$work" "$turns" "${sizes[@]}" <<'PYTHON'
import json, statistics, sys
work, turns, sizes = sys.argv[1], int(sys.argv[2]), [int(size) for size in sys.argv[3:]]
of = {"bench": {}, "script": {}}
for turn in range(turns):
    for row in json.load(open(f"{work}/bench-{turn}/bench.json"))["rows"]:
        of["bench"].setdefault(row["size_bytes"], []).append(row["time_ns"]["p50"])
    for line in open(f"{work}/script-{turn}"):
        row = json.loads(line)
        of["script"].setdefault(row["bytes"], []).append(row["ns"])
for size in sizes:
    ours, theirs = (statistics.median(of[name][size]) for name in ("bench", "script"))
    spread = [max(of[name][size]) / min(of[name][size]) for name in ("bench", "script")]
    print(f"{size:>9} bytes: bench {ours / 1e3:.1f} us, script {theirs / 1e3:.1f} us, busbw bench / script {theirs / ours:.3f}"
          f" (slowest / fastest turn {spread[0]:.2f}, {spread[1]:.2f})")
PYTHON
