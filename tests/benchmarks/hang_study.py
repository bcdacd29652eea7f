#!/usr/bin/env python3
"""How often is the verdict on a hang right, how soon, and how often does a healthy job alarm?

Runs real trainings of PyTorch over Gloo (tests/programs/torch/stuck.py) under `rankscope run --hang-timeout`, in random
order, several at a time. Each writes what it injects, and what a tool can know of it. Prints a table, and every miss.

    hang_study.py [--faults N] [--healthy N] [--jobs N] [--seed N] [--python PATH ...] [--only TEXT] [--out FILE]
"""

import argparse
import concurrent.futures
import glob
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TIMEOUT_S = 3
# A run without a verdict ends after this time.
LIMIT_S = 75
HANGS = [(shape, fault) for shape in ("ddp", "sharded", "pipeline", "groups")
         for fault in ("sleep", "loop", "loader", "stop", "operation", "order")]
# In the shape `groups`, the peers of the culprit are in time, and nothing hangs.
HANGS += [(shape, fault) for shape in ("ddp", "sharded", "pipeline") for fault in ("crossed", "skip", "size", "root")]
HANGS += [(shape, fault) for shape in ("ddp", "pipeline") for fault in ("kill", "memory")]
# With half of the ranks on another host, of which the watcher sees only the logs.
HANGS += [(shape, fault + "@hosts") for shape in ("ddp", "sharded", "pipeline")
          for fault in ("sleep", "loop", "stop", "operation", "order", "crossed")]
# A call on another host appears two seconds late in its log.
REMOTE_LIMIT_S = 10
# A rank that needs more memory than this is killed by the kernel.
MEMORY_LIMIT_BYTES = 256 << 20
HEALTHY = [(shape, fault) for shape in ("ddp", "sharded", "pipeline", "groups")
           for fault in ("none", "evaluation", "checkpoint", "compile", "breakpoint", "machine")]
HEALTHY_STEPS = 60
port_lock = threading.Lock()
# Below the range from which the kernel takes ports for connections: those may be in use.
next_port = 10000 + os.getpid() % 15000


def port():
    global next_port
    with port_lock:
        next_port += 1
        return next_port


def command(python, arguments):
    return [python, "-B", os.path.join(ROOT, "tests/programs/torch/stuck.py"), *map(str, arguments)]


def descendants(pid):
    found, new = [], [pid]
    while new:
        pid = new.pop()
        found.append(pid)
        for path in glob.glob(f"/proc/{pid}/task/*/children"):
            try:
                new += [int(child) for child in open(path).read().split()]
            except OSError:
                pass
    return found


def end_leftovers(folder):
    """Ends the ranks of the other host: no watcher runs there."""
    wanted = b"TRUTH_DIR=" + folder.encode()
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            if wanted in open(path, "rb").read().split(b"\0"):
                os.kill(int(path.split("/")[2]), signal.SIGKILL)
        except OSError:
            pass


def pause_machine(process, folder):
    """Stops the job and everything that watches it, as a suspended machine does, after the fault was announced."""
    while process.poll() is None and not os.path.exists(os.path.join(folder, "fault.json")):
        time.sleep(0.1)
    stopped = descendants(process.pid)
    for number in (signal.SIGSTOP, signal.SIGCONT):
        for pid in stopped:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        if number == signal.SIGSTOP:
            time.sleep(6)


def memory_group():
    """Creates a control group with a memory limit. Only root can."""
    name = f"rankscope-study-{os.getpid()}-{port()}"
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        folder = os.path.join(root, name)
        try:
            os.mkdir(folder)
            with open(os.path.join(folder, limit), "w") as file:
                file.write(str(MEMORY_LIMIT_BYTES))
            return folder
        except OSError:
            if os.path.isdir(folder):
                os.rmdir(folder)
    raise SystemExit("cannot create a control group with a memory limit: run the study as root")


def lines_of(process, seconds):
    """Returns the output with the time of each line, until the process ends or the time is over."""
    lines = []

    def read():
        for line in process.stdout:
            lines.append((time.time(), line.decode(errors="replace")))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    reader.join(seconds)
    return lines


def run(case):
    python, ranks, shape, fault, culprit, is_hang = case
    fault, _, hosts = fault.partition("@")
    folder = tempfile.mkdtemp(prefix="hang-study-")
    live = tempfile.mkdtemp(prefix="hang-study-", dir="/dev/shm")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RANKSCOPE_")}
    environment.update(TRUTH_DIR=folder, OMP_NUM_THREADS="1", RANKSCOPE_MIN_FREE_MIB="0", RANKSCOPE_LIVE_DIR=live,
                       RANKSCOPE_LIBRARY=os.path.join(ROOT, "target/release/librankscope.so"))
    # The ranks are forked: importing PyTorch in each would take most of the time of a run.
    environment.update(STUCK_RANKS=str(ranks), MASTER_PORT=str(port()))
    group = memory_group() if fault == "memory" else None
    if group:
        environment["STUCK_MEMORY_GROUP"] = group
    if hosts:
        environment["STUCK_OTHER_HOST"] = folder
        with open(os.path.join(folder, "other-boot-id"), "w") as file:
            file.write("aaaaaaaa-0000-4000-8000-000000000001\n")
    # Names of communicators reach other hosts after two to three seconds.
    step = random.randint(350, 400) if hosts else random.randint(20, 40)
    arguments = [shape, fault, culprit, step] + ([] if is_hang else [HEALTHY_STEPS])
    # The busy timeout is short here, so that an endless loop is found in a run of a minute.
    busy = ["--busy-timeout", "15s"]
    words = [os.path.join(ROOT, "target/release/rankscope"), "run", "--no-merge", "--hang-timeout", f"{TIMEOUT_S}s", *busy,
             *(["--on-hang", "kill"] if is_hang else []), "-o", os.path.join(folder, "run"), "--",
             *command(python, arguments)]
    process = subprocess.Popen(words, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    if fault == "breakpoint":
        def answer():
            while process.poll() is None and not os.path.exists(os.path.join(folder, "fault.json")):
                time.sleep(0.1)
            time.sleep(6)
            try:
                process.stdin.write(b"continue\n" * 8)
                process.stdin.close()
            except OSError:
                pass
        threading.Thread(target=answer, daemon=True).start()
    if fault == "machine":
        threading.Thread(target=pause_machine, args=(process, folder), daemon=True).start()
    lines = lines_of(process, LIMIT_S)
    for pid in descendants(process.pid) if process.poll() is None else []:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    status = process.wait()
    end_leftovers(folder)
    try:
        truth = json.load(open(os.path.join(folder, "fault.json")))
    except OSError:
        truth = None
    reports = [json.load(open(path)) | {"of_the_end": prefix == "end"} for prefix in ("hang", "end")
               for path in sorted(glob.glob(os.path.join(folder, "run", prefix + "-*.json")))]
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(live, ignore_errors=True)
    # The kernel removes a killed process from its group a little later.
    while group:
        try:
            os.rmdir(group)
            group = None
        except OSError:
            time.sleep(0.1)
    return judge(case, status, truth, reports, lines)


def is_of_other_host(case):
    _, ranks, _, fault, culprit, _ = case
    return fault.endswith("@hosts") and culprit >= ranks // 2


def judge(case, status, truth, reports, lines):
    python, ranks, shape, fault, culprit, is_hang = case
    text = "".join(line for _, line in lines)[-6000:]
    out = {"shape": shape, "fault": fault, "ranks": ranks, "culprit": culprit, "python": python, "hang": is_hang,
           "status": status, "verdict": "right", "why": "", "delay_s": None}
    if truth is None and fault != "none" and reports:
        return out | {"verdict": "alarm", "why": "before the fault: " + reports[0]["sentence"], "text": text}
    if truth is None and fault != "none":
        return out | {"verdict": "invalid", "why": "the job did not reach its fault: " + text[-300:], "text": text}
    if not is_hang:
        if reports:
            return out | {"verdict": "alarm", "why": reports[0]["sentence"]}
        if status != 0:
            return out | {"verdict": "invalid", "why": f"the job ended with {status}: {text[-300:]}", "text": text}
        return out
    if fault in ("kill", "memory"):
        return judge_end(out, truth, reports, lines, text)
    if not reports:
        return out | {"verdict": "none", "why": f"no report; the job ended with {status}: {text[-300:]}"}
    report = reports[0]
    first = report["verdicts"][0]
    limit_s = 15 if fault.startswith("loop") else TIMEOUT_S
    if is_of_other_host(case):
        # Whether the process works, sleeps or is stopped shows only on its host.
        limit_s = REMOTE_LIMIT_S
        truth["kinds"] += ["missing-caller", "user-code"]
    if report["of_the_end"]:
        # The job ended by itself with errors, and no timeout was needed.
        out["ended"] = True
    else:
        out["delay_s"] = (report["taken_unix_ns"] - truth["at_unix_ns"]) / 1e9 - limit_s
    numbers = sorted(report["ranks"][rank]["number"] for rank in first["culprits"])
    wrong = []
    if first["kind"] not in truth["kinds"]:
        wrong.append(f"kind {first['kind']} instead of {' or '.join(truth['kinds'])}")
    if numbers != truth["culprits"]:
        wrong.append(f"ranks {numbers} instead of {truth['culprits']}")
    if truth["number"] is not None and not (shape == "ddp" and len(truth["group"]) == ranks):
        if first["sequence"] != truth["number"]:
            wrong.append(f"number {first['sequence']} instead of {truth['number']}")
    if truth["group"] is not None and first["communicator"] is not None:
        size = report["communicators"][first["communicator"]]["size"]
        if size != len(truth["group"]):
            wrong.append(f"a communicator of {size} instead of {len(truth['group'])}")
    if (out["delay_s"] or 0) > 2:
        out["late"] = first
    if wrong:
        return out | {"verdict": "wrong", "why": "; ".join(wrong) + ": " + first["sentence"]}
    return out


def judge_end(out, truth, reports, lines, text):
    """A rank whose process is gone is reported when it ends, or as the cause of a hang or of the end of the job."""
    words = "out of memory" if out["fault"] == "memory" else "killed by SIGKILL"
    for at, line in lines:
        if "ended first" in line:
            out["delay_s"] = at - truth["at_unix_ns"] / 1e9 - TIMEOUT_S
            first = line.split(";")[0]
            # Of a rank that was killed before the first look, only the log is left.
            is_right = f"rank {out['culprit']} " in first and (words in first or "killed, crashed" in first)
            return out if is_right else out | {"verdict": "wrong", "why": line.strip(), "text": text}
    if not reports:
        return out | {"verdict": "none", "why": text[-300:], "text": text}
    first = reports[0]["verdicts"][0]
    numbers = [reports[0]["ranks"][rank]["number"] for rank in first["culprits"]]
    if (first["kind"], numbers) != ("process-gone", truth["culprits"]):
        return out | {"verdict": "wrong", "why": first["sentence"], "text": text}
    out["delay_s"] = (reports[0]["taken_unix_ns"] - truth["at_unix_ns"]) / 1e9 - TIMEOUT_S
    return out


def interval(right, all_runs):
    """Wilson's interval of 95 %."""
    if not all_runs:
        return 0.0, 1.0
    z, p = 1.96, right / all_runs
    middle = (p + z * z / (2 * all_runs)) / (1 + z * z / all_runs)
    half = z * math.sqrt(p * (1 - p) / all_runs + z * z / (4 * all_runs**2)) / (1 + z * z / all_runs)
    return max(0.0, middle - half), min(1.0, middle + half)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--healthy", type=int, default=300)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", action="append")
    parser.add_argument("--only", help="only cases whose name contains this")
    parser.add_argument("--out", help="one line of JSON per run")
    options = parser.parse_args()
    random.seed(options.seed)
    pythons = options.python or [sys.executable]

    def cases(of, count, is_hang):
        chosen = [case for case in of if not options.only or options.only in "-".join(case)]
        out = []
        for index in range(count if chosen else 0):
            shape, fault = chosen[index % len(chosen)]
            kind = fault.partition("@")[0]
            ranks = random.choice([4, 4, 4, 4, 4, 4, 6, 8] if shape in ("groups", "sharded", "pipeline") else [2, 2, 3, 3, 4, 4, 4, 8])
            if kind in ("crossed", "skip", "size", "root") and ranks < 4:
                ranks = 4
            culprit = 1 if kind in ("crossed", "skip") else random.randrange(ranks)
            if kind in ("breakpoint", "root"):
                culprit = 0
            out.append((random.choice(pythons), ranks, shape, fault, culprit, is_hang))
        return out

    todo = cases(HANGS, options.faults, True) + cases(HEALTHY, options.healthy, False)
    random.shuffle(todo)
    done, started = [], time.monotonic()
    out = open(options.out, "a") if options.out else None
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for result in pool.map(run, todo):
            done.append(result)
            if out:
                print(json.dumps(result), file=out, flush=True)
            if result["verdict"] != "right":
                name = f"{result['shape']} {result['fault']} rank {result['culprit']} of {result['ranks']}"
                print(f"{result['verdict']:8} {name}: {result['why']}", flush=True)
            elif len(done) % 20 == 0:
                print(f"{len(done)} of {len(todo)} runs in {time.monotonic() - started:.0f} s", flush=True)
    print()
    for is_hang, good in ((True, "right"), (False, "right")):
        of = [result for result in done if result["hang"] == is_hang and result["verdict"] != "invalid"]
        if not of:
            continue
        title = "hangs with the right verdict" if is_hang else "healthy runs without an alarm"
        right = sum(result["verdict"] == good for result in of)
        low, high = interval(right, len(of))
        print(f"{title}: {right} of {len(of)} ({right / len(of):.1%}, 95 % interval {low:.1%} to {high:.1%})")
        for fault in sorted({result["fault"] for result in of}):
            part = [result for result in of if result["fault"] == fault]
            print(f"  {fault:12} {sum(result['verdict'] == good for result in part)} of {len(part)}")
    delays = sorted(result["delay_s"] for result in done if result["delay_s"] is not None)
    if delays:
        at = lambda share: delays[min(len(delays) - 1, int(share * len(delays)))]
        late = sum(delay > 2 for delay in delays)
        print(f"report after the timeout: median {at(0.5):.2f} s, p95 {at(0.95):.2f} s, largest {delays[-1]:.2f} s; "
              f"{late} of {len(delays)} later than 2 s")
    print(f"jobs that ended by themselves, and were reported then: {sum('ended' in result for result in done)}")
    print(f"invalid runs: {sum(result['verdict'] == 'invalid' for result in done)}")


if __name__ == "__main__":
    main()
