#!/usr/bin/env python3
"""What does a job lose while `status`, `top`, `serve` or `watch` reads it once per second?

A DDP training on Gloo runs (overhead_job.py). In one phase of each pair the tool reads it, in the other nothing does, in an
order drawn from a seed. `status` is started once per second. The other tools run all the time and are stopped (SIGSTOP) in the
phases without them, so phases can be short, and a drift of the machine affects both. Prints the mean change of the step time
over the pairs, with its 95 % interval. Steps near the change of a phase do not count.

    reading_cost.py [--pairs N] [--phase SECONDS] [--ranks N] [--only TOOL] [--python PATH]
"""

import argparse
import json
import math
import os
import pathlib
import pty
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
RELEASE = HERE.parents[1] / "target" / "release"
PROGRAM = str(RELEASE / "rankscope")
# Time after the change of a phase in which steps do not count. A tool that goes on reads at once, which counts.
SETTLING_S = 0.05
TOOLS = {
    "status": ["status", "RUN", "--json"],
    "top": ["top", "RUN"],
    "serve": ["serve", "RUN", "--metrics", "127.0.0.1:0", "--interval", "1s", "--window", "10s"],
    "watch": ["watch", "RUN", "--warnings", "--warning-window", "3s"],
}


class Repeated:
    """A tool that is started once per second."""

    def __init__(self, name, run):
        self.command = command(name, run)
        self.thread = None

    def go_on(self):
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.repeat)
        self.thread.start()

    def repeat(self):
        while not self.stopping.is_set():
            started = time.monotonic()
            subprocess.run(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.stopping.wait(max(0, 1 - (time.monotonic() - started)))

    def pause(self):
        self.stopping.set()
        self.thread.join()

    def end(self):
        pass


class Lasting:
    """A tool that reads all the time. It gets a terminal, which `top` needs."""

    def __init__(self, name, run):
        controller, terminal = pty.openpty()
        self.process = subprocess.Popen(command(name, run), stdin=terminal, stdout=terminal, stderr=terminal,
                                        start_new_session=True)
        os.close(terminal)
        threading.Thread(target=drain, args=(controller,), daemon=True).start()
        time.sleep(3)
        self.pause()

    def go_on(self):
        os.killpg(self.process.pid, signal.SIGCONT)

    def pause(self):
        os.killpg(self.process.pid, signal.SIGSTOP)

    def end(self):
        if self.process.poll() is not None:
            raise SystemExit(f"{self.process.args} ended by itself")
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def command(name, run):
    return [PROGRAM] + [run if word == "RUN" else word for word in TOOLS[name]]


def drain(descriptor):
    try:
        while os.read(descriptor, 1 << 16):
            pass
    except OSError:
        pass


def measure(name, arguments):
    with tempfile.TemporaryDirectory(dir="/dev/shm") as work:
        run, out = os.path.join(work, "run"), os.path.join(work, "times.json")
        environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "RANKSCOPE_DIR")}
        environment.update(OMP_NUM_THREADS="1", LD_PRELOAD=str(RELEASE / "librankscope.so"), RANKSCOPE_DIR=run)
        # More steps than are needed: the job is ended.
        steps = int(arguments.pairs * arguments.phase * 2 * arguments.rate) + 200
        job = subprocess.Popen(
            [arguments.python, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(arguments.ranks),
             str(HERE / "overhead_job.py"), "times", str(steps), out],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not os.path.exists(run):
            time.sleep(0.1)
        time.sleep(8)
        phases, order = [], random.Random(23)
        tool = (Repeated if name == "status" else Lasting)(name, run)
        for pair in range(arguments.pairs):
            first = order.random() < 0.5
            for reads in (first, not first):
                began = time.time_ns()
                if reads:
                    tool.go_on()
                time.sleep(arguments.phase)
                phases.append((pair, reads, began + int(SETTLING_S * 1e9), time.time_ns()))
                if reads:
                    tool.pause()
            if job.poll() is not None:
                print(f"the job ended after {pair} pairs", file=sys.stderr)
                break
        tool.end()
        job.wait()
        with open(out) as file:
            ends = json.load(file)
    times = {}
    for pair, reads, began, ended in phases:
        inside = [end for end in ends if began <= end <= ended]
        if len(inside) > 10:
            times.setdefault(pair, {})[reads] = (inside[-1] - inside[0]) / (len(inside) - 1)
    logs = [math.log(of[True] / of[False]) for of in times.values() if len(of) == 2]
    mean = statistics.fmean(logs)
    half = 1.96 * statistics.stdev(logs) / math.sqrt(len(logs))
    percent = [round(100 * (math.exp(value) - 1), 2) for value in (mean, mean - half, mean + half)]
    step_ms = statistics.median(of[False] for of in times.values() if len(of) == 2) / 1e6
    return {"tool": name, "change_percent": percent[0], "low_percent": percent[1], "high_percent": percent[2],
            "median_percent": round(100 * (math.exp(statistics.median(logs)) - 1), 2),
            "pairs": len(logs), "step_ms": round(step_ms, 2)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=120)
    parser.add_argument("--phase", type=float, default=2.0)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rate", type=float, default=90, help="steps per second of the job, at most")
    parser.add_argument("--only", choices=TOOLS)
    parser.add_argument("--python", default=sys.executable)
    arguments = parser.parse_args()
    for name in [arguments.only] if arguments.only else TOOLS:
        print(json.dumps(measure(name, arguments)), flush=True)


if __name__ == "__main__":
    main()
