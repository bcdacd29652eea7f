"""Runs torch.profiler before, during and after a recording by rankscope, in one process.

    python torch_profiler.py TRACES [CONTROL]

Each phase runs a kind of kernel that no other phase runs. Traces are written to the directory TRACES. CONTROL is the
command that switches recording off (`rankscope ctl DIR`). Without it there is no recording and no wait. The last line
reports the launches by phase. With CPU=1 in the environment it runs without a device, to try the program."""

import json
import os
import shlex
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule

traces = sys.argv[1]
control = sys.argv[2] if len(sys.argv) > 2 else None
os.makedirs(traces, exist_ok=True)
HAS_DEVICE = not os.environ.get("CPU")
KERNELS = 1000
# The recorder yields for two seconds after the last sign of another profiler, and checks every half second.
GRACE = 3.5
activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * HAS_DEVICE
data = torch.rand(1 << 16, device="cuda" if HAS_DEVICE else "cpu")
out = torch.empty_like(data)
phases, profiled_s = [], 0.0


def synchronize():
    if HAS_DEVICE:
        torch.cuda.synchronize()


def launch(function, count):
    for _ in range(count):
        getattr(torch, function)(data, out=out)
    synchronize()


def wait(seconds):
    if control:
        time.sleep(seconds)


def recorded(name, function, is_expected=True):
    """Launches kernels without another profiler. rankscope must record them if `is_expected`."""
    launch(function, KERNELS)
    phases.append({"phase": name, "function": function, "launched": KERNELS, "recorded": is_expected})
    # The records must be delivered before another profiler starts.
    wait(1)


def profiled(name, function):
    global profiled_s
    begun = time.perf_counter()
    with profile(activities=activities) as profiler:
        launch(function, KERNELS)
    profiled_s += time.perf_counter() - begun
    profiler.export_chrome_trace(f"{traces}/{name}.json")
    phases.append(
        {"phase": name, "function": function, "launched": KERNELS, "traces": [f"{name}.json"], "of_each": KERNELS}
    )


def scheduled(name, function):
    """Runs two cycles of one waiting step, one warm-up step and three recorded steps."""
    global profiled_s
    written = []

    def write(profiler):
        written.append(f"{name}-{len(written)}.json")
        profiler.export_chrome_trace(f"{traces}/{written[-1]}")

    begun = time.perf_counter()
    steps, per_step = 2 * (1 + 1 + 3), 200
    with profile(
        activities=activities, schedule=schedule(wait=1, warmup=1, active=3, repeat=2), on_trace_ready=write
    ) as profiler:
        for _ in range(steps):
            launch(function, per_step)
            profiler.step()
    profiled_s += time.perf_counter() - begun
    phases.append(
        {"phase": name, "function": function, "launched": steps * per_step, "traces": written, "of_each": 3 * per_step}
    )


# Before rankscope starts anything: the recorder starts with the first communicator.
profiled("before", "exp")
before_s, profiled_s = profiled_s, 0.0
if HAS_DEVICE:
    torch.cuda.set_device(0)
dist.init_process_group("nccl" if HAS_DEVICE else "gloo")
dist.all_reduce(data)
synchronize()
wait(GRACE)
recorded("first", "sin")
profiled("while", "cos")
wait(GRACE)
recorded("second", "tanh")
scheduled("scheduled", "sqrt")
wait(GRACE)
recorded("third", "atan")
scheduled("scheduled_again", "log")
wait(GRACE)
recorded("fourth", "erf")
if control:
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run([*shlex.split(control), "--kernels=off"], check=True, env=environment, stdout=sys.stderr)
wait(2.5)
recorded("off", "sinh", False)
while_s, profiled_s = profiled_s, 0.0
profiled("after", "cosh")
print(json.dumps({"phases": phases, "profiled_before_s": before_s, "profiled_while_s": while_s}), flush=True)
dist.destroy_process_group()
