"""Measures the cost of recording device work for a training step of ordinary kernels, and for a launch, in interleaved
blocks:

    python overhead_kernels.py RESULT CONTROL

The modes of the recording are off (none), calls (only NCCL calls) and kernels (--kernels=all). The modes of
torch.profiler are profiler (its defaults) and profiler_cuda (the device alone). CONTROL is the command that switches
the recording (`rankscope ctl DIR`). The job is one rank of DDP, with a transformer whose step takes some ten
milliseconds. RESULT gets one line of JSON per comparison with off. With CPU=1 it runs without a device, to try the
program."""

import contextlib
import ctypes
import json
import os
import shlex
import subprocess
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

path, control = sys.argv[1], sys.argv[2]
HAS_DEVICE = not os.environ.get("CPU")
SECONDS = float(os.environ.get("SECONDS", 170))
# A block of steps, in seconds, and a number of small launches.
BLOCK_SECONDS, LAUNCHES = (1.0, 5000) if HAS_DEVICE else (0.2, 500)
# The recorder checks for requests once a second. After another profiler it waits for two seconds, and checks every half
# second.
LOOK, GRACE = 1.7, 2.6
# Student's t for a 95 % interval, by degrees of freedom.
STUDENT = {
    2: 4.303,
    3: 3.182,
    4: 2.776,
    5: 2.571,
    6: 2.447,
    7: 2.365,
    8: 2.306,
    9: 2.262,
    10: 2.228,
    12: 2.179,
    15: 2.131,
    20: 2.086,
    30: 2.042,
}
MODES = ["off", "calls", "kernels", "profiler_cuda", "profiler"]

device = "cuda" if HAS_DEVICE else "cpu"
if HAS_DEVICE:
    torch.cuda.set_device(0)
dist.init_process_group("nccl" if HAS_DEVICE else "gloo")
library = ctypes.CDLL(None)
torch.manual_seed(1)
width, tokens = (768, 512) if HAS_DEVICE else (64, 16)
layer = torch.nn.TransformerEncoderLayer(width, 12 if HAS_DEVICE else 4, 4 * width, dropout=0.0, batch_first=True)
model = torch.nn.Sequential(
    torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), torch.nn.Linear(width, width)
).to(device)
model = DistributedDataParallel(model, device_ids=[0] if HAS_DEVICE else None)
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
batch = torch.randn(8, tokens, width, device=device)
small = torch.ones(64, device=device)


def synchronize():
    if HAS_DEVICE:
        torch.cuda.synchronize()


def step():
    with torch.autocast(device, dtype=torch.bfloat16):
        loss = model(batch).square().mean()
    loss.backward()
    optimiser.step()
    optimiser.zero_grad()


def steps_ms(count):
    synchronize()
    begun = time.perf_counter_ns()
    for _ in range(count):
        step()
    synchronize()
    return (time.perf_counter_ns() - begun) / count / 1e6


def launch_us():
    """Returns the time from PyTorch's call to its return. The device keeps up, so no call waits for it."""
    total = 0
    for _ in range(LAUNCHES // 250):
        begun = time.perf_counter_ns()
        for _ in range(250):
            small.add_(1)
        total += time.perf_counter_ns() - begun
        synchronize()
    return total / (LAUNCHES // 250 * 250) / 1e3


asked, was_profiled = None, False


def ask(kernels):
    global asked
    if asked == kernels:
        return
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    subprocess.run([*shlex.split(control), f"--kernels={kernels}"], check=True, env=environment, stdout=sys.stderr)
    asked = kernels
    # The wait is spent with work, so that the clock rates of the device stay constant.
    until = time.perf_counter() + LOOK
    while time.perf_counter() < until:
        steps_ms(5)


def enter(mode):
    global was_profiled
    if mode == "kernels" and was_profiled:
        until = time.perf_counter() + GRACE
        while time.perf_counter() < until:
            steps_ms(5)
    was_profiled = mode.startswith("profiler")
    library.rankscope_resume() if mode in ("calls", "kernels") else library.rankscope_pause()
    ask("all" if mode == "kernels" else "off")
    if mode == "profiler":
        activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * HAS_DEVICE
        return profile(activities=activities)
    if mode == "profiler_cuda":
        return profile(activities=[ProfilerActivity.CUDA] if HAS_DEVICE else [ProfilerActivity.CPU])
    return contextlib.nullcontext()


seconds_in = dict.fromkeys(MODES, 0.0)


def measure(mode, count):
    with enter(mode):
        begun = time.perf_counter()
        # The first steps in a mode are not its steady state.
        steps_ms(3)
        measured = steps_ms(count), launch_us()
        seconds_in[mode] += time.perf_counter() - begun
    return measured


steps_ms(10)
launch_us()
COUNT = max(3, round(BLOCK_SECONDS * 1e3 / steps_ms(20)))
for mode in MODES:
    measure(mode, 3)
began, rounds = time.perf_counter(), []
while len(rounds) < 3 or (time.perf_counter() - began) * (len(rounds) + 1) / len(rounds) < SECONDS:
    # The order alternates, so that a drift affects all modes equally.
    taken = {}
    for mode in MODES if len(rounds) % 2 == 0 else MODES[::-1]:
        taken[mode] = measure(mode, COUNT)
    rounds.append(taken)
    if len(rounds) == 60:
        break
library.rankscope_resume()


def interval(values):
    mean = sum(values) / len(values)
    deviation = (sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5
    freedom = max(known for known in STUDENT if known <= len(values) - 1)
    half = STUDENT[freedom] * deviation / len(values) ** 0.5
    return mean, [mean - half, mean + half]


with open(path, "w") as file:
    for mode in MODES:
        line = {"part": "overhead_kernels", "case": mode, "rounds": len(rounds), "steps_per_block": COUNT, "ok": True}
        line["seconds_in_it"] = seconds_in[mode]
        for at, name in enumerate(("step_ms", "launch_us")):
            values = sorted(one[mode][at] for one in rounds)
            line[name] = {"mean": sum(values) / len(values), "median": values[len(values) // 2]}
            ratios = [one[mode][at] / one["off"][at] - 1 for one in rounds]
            mean, bounds = interval(ratios)
            line[name].update(change=mean, interval_95=bounds, median_change=sorted(ratios)[len(ratios) // 2])
            more, bounds = interval([one[mode][at] - one["off"][at] for one in rounds])
            line[name].update(more=more, more_95=bounds)
        print(json.dumps(line), flush=True)
        file.write(json.dumps(line) + "\n")
dist.destroy_process_group()
