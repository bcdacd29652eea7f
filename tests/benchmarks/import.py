#!/usr/bin/env python3
"""Measures the import of a torch.profiler trace against Holistic Trace Analysis and the Perfetto engine on the same
file.

    tests/benchmarks/import.py [TRACE]        default: the largest sample

Rounds of the three alternate, so that other load of the machine affects all of them. Each has one warm-up round in its
process. Prints medians and ratios: absolute times say little.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUNDS = 5


def output_of(command):
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def main():
    trace = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "tests/fixtures/hta/fsdp_rank3.json.gz")
    output_of(["cargo", "build", "--locked", "--quiet", "--release", "-p", "rankscope", "--examples"])
    hta = output_of(["tests/setup/hta.sh"]).strip()
    output_of(["tests/setup/node.sh"])
    reading, whole, peer, engine = [], [], [], []
    with tempfile.TemporaryDirectory() as work:
        for _ in range(ROUNDS):
            words = output_of(["target/release/examples/import_bench", f"{work}/run", trace]).split()
            ours = dict(zip(words[::2], map(float, words[1::2])))
            reading.append(ours["read_s"])
            whole.append(ours["total_s"])
            peer.append(json.loads(output_of([hta, "tests/programs/hta_figures.py", "--time", "2", f"0={trace}"]))[-1])
            engine.append(json.loads(output_of(["node", "tests/perfetto-engine/import_time.mjs", "2", trace]))[-1])
    reading, whole, peer, engine = map(statistics.median, (reading, whole, peer, engine))
    print(f"load, overlap, temporal and idle figures: {reading:.3f} s; HTA {peer:.3f} s, ratio 1/{peer / reading:.1f}")
    print(f"to a session with all analyses: {whole:.3f} s; HTA / ours {peer / whole:.1f}")
    print(f"Perfetto's import {engine:.3f} s; ours 1/{engine / whole:.1f} of it")


main()
