#!/usr/bin/env python3
"""Compares a merge by two executors of this machine with the same merge by two threads, alternately.

    tests/benchmarks/cluster.py [--ranks 16384] [--operations 1000] [--turns 3]

Prints the wall time of each phase and the ratio of the medians. Logs are synthetic. The sessions are compared byte for byte.
"""

import argparse
import filecmp
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"


def build():
    for package, what in [("rankscope", ["--examples"]), ("rankscope-cluster", ["--bins", "--examples"])]:
        subprocess.run(["cargo", "build", "--locked", "--quiet", "--release", "-p", package, *what], cwd=ROOT, check=True)


def merge(run, session, *more):
    out = subprocess.run([PROGRAMS / "examples/merge_phases", run, session, *more], check=True, capture_output=True, text=True).stdout
    print(out, end="", flush=True)
    return float(out.split()[0])


def differences(one, other):
    """Returns the files that differ, but for the time at which the summary was written."""
    names = {path.relative_to(one) for path in one.rglob("*") if path.is_file()}
    others = {path.relative_to(other) for path in other.rglob("*") if path.is_file()}
    found = [str(name) for name in names ^ others]
    for name in names & others:
        if name.name == "session.json":
            same = len({re.sub(r'"written_unix_ns":\s*\d+', "", (place / name).read_text()) for place in (one, other)}) == 1
        else:
            same = filecmp.cmp(one / name, other / name, shallow=False)
        if not same:
            found.append(str(name))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=16384)
    parser.add_argument("--operations", type=int, default=1000, help="operations per rank")
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    build()
    work = pathlib.Path(tempfile.mkdtemp(dir=os.environ.get("WORK")))
    processes = []
    try:
        subprocess.run(
            [PROGRAMS / "examples/synthetic", work / "run", str(arguments.ranks * arguments.operations), str(arguments.ranks)],
            check=True,
        )
        token = work / "token"
        token.write_text("a token of a benchmark\n")

        def start(*command):
            process = subprocess.Popen(
                [PROGRAMS / "rankscope-cluster", *command, "--token-file", token], stderr=subprocess.PIPE, text=True
            )
            processes.append(process)
            return process.stderr.readline()

        scheduler = start("scheduler", "--listen", "127.0.0.1:0").split()[-1]
        for _ in range(2):
            start("executor", scheduler, "--threads", "1")
        here, there = [], []
        for turn in range(arguments.turns):
            for walls, name, more in [(here, "here", []), (there, "there", [scheduler, token])]:
                print(f"{name}: ", end="", flush=True)
                # Files are slow to create on ext4 shortly after many were removed, so each merge gets a new folder.
                session = work / f"{name}-{turn}"
                walls.append(merge(work / "run", session, *more))
            different = differences(work / f"here-{turn}", work / f"there-{turn}")
            if different:
                sys.exit(f"the sessions differ: {different[:5]}")
            for name in ("here", "there"):
                shutil.rmtree(work / f"{name}-{turn}")
        ratio = statistics.median(there) / statistics.median(here)
        print(f"two executors / two threads: {ratio:.2f} (medians {statistics.median(there):.2f} s and {statistics.median(here):.2f} s)")
    finally:
        for process in processes:
            process.kill()
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
