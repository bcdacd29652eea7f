#!/usr/bin/env python3
"""Compares a session in an S3 server on this machine with the same session on the local disk: time, requests and bytes.

The session is synthetic. The server is tests/s3-server, with a latency per request that a bucket in the same region has. Times of
both are from the same run of this script, in turns. The picture is that of `rankscope view --screenshot`: start of the program,
session, and a timeline of the first ranks.

    object_store.py [--ranks 1024] [--operations 10000000] [--latency-ms 20] [--turns 3] [--work DIRECTORY]

Needs `make build`.
"""

import argparse
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


class Server:
    def __init__(self, root, latency_ms):
        self.process = subprocess.Popen([RELEASE / "examples/serve", root, "runs", str(latency_ms)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.environment = dict(os.environ)
        for line in iter(self.process.stdout.readline, "\n"):
            name, value = line.removeprefix("export ").strip().split("=", 1)
            self.environment[name] = value

    def counters(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        return dict(zip(words[::2], map(int, words[1::2])))

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def timed(command, environment):
    started = time.perf_counter()
    done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - started
    if done.returncode not in (0, 1, 3):
        sys.exit(f"{command}: {done.stderr}")
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--operations", type=int, default=10_000_000)
    parser.add_argument("--latency-ms", type=int, default=20)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--work", type=pathlib.Path)
    arguments = parser.parse_args()
    packages = ["-p", "rankscope", "-p", "rankscope-s3-server"]
    subprocess.run(["cargo", "build", "--locked", "--quiet", "--release", *packages, "--examples", "--bins"], check=True, cwd=ROOT)
    work = pathlib.Path(tempfile.mkdtemp(dir=arguments.work))
    try:
        measure(arguments, work)
    finally:
        shutil.rmtree(work)


def measure(arguments, work):
    # Object keys and local files are the same files: the server keeps objects as files of a directory.
    run = work / "objects/runs/job"
    subprocess.run([RELEASE / "examples/synthetic", run, str(arguments.operations), str(arguments.ranks)], check=True, stdout=sys.stderr)
    program, viewer = RELEASE / "rankscope", RELEASE / "rankscope-viewer"
    server = Server(work / "objects", arguments.latency_ms)
    url = "s3://runs/job"
    picture = str(work / "picture.png")
    scratch = work / "scratch"
    scratch.mkdir()

    logs = sum(file.stat().st_size for file in run.rglob("*") if file.is_file())
    remote = timed([program, "merge", url, "--only-session", "--scratch", scratch], server.environment)
    counters = server.counters()
    local = timed([program, "merge", run, "-o", work / "merged", "--only-session"], None)
    size = sum(file.stat().st_size for file in (run / "session").rglob("*") if file.is_file())
    print(f"{arguments.ranks} ranks, {arguments.operations} operations; logs {logs / 1e6:.0f} MB, session {size / 1e6:.0f} MB; "
          f"{arguments.latency_ms} ms per request")
    print(f"merge: {remote:.1f} s and {local:.1f} s locally, ratio {remote / local:.2f}; {counters}")
    commands = {
        "first picture": [viewer, "RUN", "--screenshot", picture],
        "report": [program, "report", "RUN", "--json"],
        "report --range": [program, "report", "RUN", "--json", "--range", "1s..1.1s", "--ranks", "0-15"],
        "heatmap": [program, "heatmap", "RUN", "-o", str(work / "maps"), "--json"],
    }
    for name, command in commands.items():
        times = {"remote": [], "local": []}
        for _ in range(arguments.turns):
            for place, path, environment in [("local", str(run), None), ("remote", url, server.environment)]:
                server.counters()
                filled = [path if word == "RUN" else word for word in command]
                times[place].append(timed(filled, environment))
        counters = server.counters()
        remote, local = statistics.median(times["remote"]), statistics.median(times["local"])
        print(f"{name}: {remote:.2f} s and {local:.2f} s locally, ratio {remote / local:.1f}; {counters['requests']} requests, "
              f"{counters['sent'] / 1e6:.2f} MB of {size / 1e6:.0f} MB")
    server.stop()


main()
