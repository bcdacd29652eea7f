#!/usr/bin/env python3
"""Compares `rankscope sql` with DuckDB on the same Parquet files: time to the first row, and groups over all operations.

The sessions are synthetic: one job, merged once and linked as RUNS runs. Both engines use the same number of threads. The time of
rankscope is that of a whole process. DuckDB's is that of its query alone, in a process that has loaded it.

    sql.py [--ranks 1024] [--operations 10000000] [--runs 10] [--threads 2] [--turns 3] [--work DIRECTORY]

Needs `make sql` and DuckDB (tests/setup/tables.sh prints a Python that has it).
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
RELEASE = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
QUERIES = {
    "first row": "select * from operations limit 1",
    "count": "select count(*) as n from operations",
    "groups": "select operation, state, count(*) as n, sum(bytes) as bytes, avg(leave_ns - enter_ns) as mean_ns, "
              "max(exposed_wait_ns) as max_wait_ns from operations group by operation, state order by operation, state",
    "interval": "select count(*) as n, sum(bytes) as bytes from operations where enter_ns between 1000000000 and 2000000000",
}
DUCKDB = """
import duckdb, json, sys, time
files, threads, query = sys.argv[1:]
connection = duckdb.connect()
connection.execute(f"set threads = {threads}")
connection.execute("set enable_progress_bar = false")
started = time.perf_counter()
connection.execute(f"create view operations as select * from read_parquet('{files}')")
rows = connection.execute(query).fetchall()
print(json.dumps([time.perf_counter() - started, [[str(value) for value in row] for row in rows]]))
"""


def make(arguments, work):
    subprocess.run(["cargo", "build", "--locked", "--quiet", "--release", "-p", "rankscope", "--examples"], check=True, cwd=ROOT)
    programs = RELEASE / "examples"
    logs, first = work / "logs", work / "runs/run0/session"
    first.parent.mkdir(parents=True)
    subprocess.run([programs / "synthetic", logs, str(arguments.operations), str(arguments.ranks)], check=True, stdout=sys.stderr)
    subprocess.run([programs / "merge_bench", logs, first], check=True, stdout=sys.stderr)
    shutil.rmtree(logs)
    for number in range(1, arguments.runs):
        shutil.copytree(first.parent, work / f"runs/run{number}", copy_function=os.link)
    return work / "runs"


def rankscope(runs, query, threads):
    started = time.perf_counter()
    done = subprocess.run([RELEASE / "rankscope-sql", runs, query, "--format", "json", "--threads", str(threads)], check=True,
                          capture_output=True, text=True)
    seconds = time.perf_counter() - started
    return seconds, [[str(value) for value in json.loads(line).values()] for line in done.stdout.splitlines()]


def duckdb(runs, query, threads):
    done = subprocess.run([sys.executable, "-c", DUCKDB, f"{runs}/*/session/operations/*.parquet", str(threads), query], check=True,
                          capture_output=True, text=True)
    seconds, rows = json.loads(done.stdout)
    return seconds, rows


def same(mine, other):
    """Returns True for equal rows. Means differ in their last digits."""
    def close(one, two):
        return one == two or abs(float(one) - float(two)) <= 1e-9 * abs(float(two))

    return len(mine) == len(other) and all(len(a) == len(b) and all(map(close, a, b)) for a, b in zip(mine, other))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--operations", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--work", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.work) as folder:
        runs = make(arguments, pathlib.Path(folder))
        for name, query in QUERIES.items():
            ours, theirs = [], []
            for _ in range(arguments.turns):
                seconds, mine = rankscope(runs, query, arguments.threads)
                ours.append(seconds)
                seconds, other = duckdb(runs, query, arguments.threads)
                theirs.append(seconds)
            if name != "first row" and not same(mine, other):
                sys.exit(f"{name}: the results differ:\n{mine}\n{other}")
            ours, theirs = statistics.median(ours), statistics.median(theirs)
            print(f"{name:10} rankscope {ours:7.3f} s   DuckDB {theirs:7.3f} s   ratio {ours / theirs:.2f}", flush=True)


main()
