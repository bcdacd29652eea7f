"""Measures the price of the Python module's marks, recorded and silent, and prints ratios to an empty context manager.

    python3 tests/benchmarks/python_marks.py [LIBRARY]

The recorded part runs in a child process with LIBRARY preloaded, by default target/release/librankscope.so."""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCKS, PER_BLOCK = 41, 5000


class Empty:
    __slots__ = ()

    def __enter__(self):
        return None

    def __exit__(self, *_):
        return None


def block(run):
    start = time.perf_counter_ns()
    run(PER_BLOCK)
    return (time.perf_counter_ns() - start) / PER_BLOCK


def spans(make, name):
    def run(count):
        for _ in range(count):
            with make(name):
                pass

    return run


def measure():
    sys.path.insert(0, str(ROOT / "layer/python"))
    import rankscope

    if rankscope.is_recording():
        assert rankscope.start()
    empty = Empty()
    kinds = {"empty": spans(lambda _: empty, "load"), "span": spans(rankscope.span, "load")}

    def counters(count):
        for _ in range(count):
            rankscope.counter("loss", 0.5)

    kinds["counter"] = counters
    times = {kind: [] for kind in kinds}
    for _ in range(BLOCKS):
        # The recorder's thread empties the chunks meanwhile.
        time.sleep(0.02)
        for kind, run in kinds.items():
            times[kind].append(block(run))
    what = "recorded" if rankscope.is_recording() else "silent"
    medians = {kind: statistics.median(values) for kind, values in times.items()}
    for kind in ("span", "counter"):
        ratio = medians[kind] / medians["empty"]
        print(f"{what} {kind}: {medians[kind]:.0f} ns, {ratio:.1f} × an empty context manager ({medians['empty']:.0f} ns)")


if __name__ == "__main__":
    if os.environ.get("PYTHON_MARKS_CHILD"):
        measure()
    else:
        library = sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/release/librankscope.so"
        child = {**os.environ, "PYTHON_MARKS_CHILD": "1"}
        subprocess.run([sys.executable, __file__], env=child, check=True)
        with tempfile.TemporaryDirectory() as run:
            recorded = {**child, "LD_PRELOAD": str(Path(library).resolve()), "RANKSCOPE_DIR": run}
            subprocess.run([sys.executable, __file__], env=recorded, check=True)
