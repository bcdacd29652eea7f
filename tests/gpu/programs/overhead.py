"""Measures the step time with recording on and off, in interleaved blocks inside one run: python overhead.py RESULT."""
import ctypes
import json
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

# Two ranks take turns on one device. The time limit determines the number of blocks.
SECONDS, STEPS = 30, 10
torch.cuda.set_device(0)
dist.init_process_group("nccl")
library = ctypes.CDLL(None)
model = DistributedDataParallel(
    torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(12)]).cuda(), device_ids=[0], bucket_cap_mb=1
)
optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
data = torch.randn(256, 1024, device="cuda")


def block():
    torch.cuda.synchronize()
    start = time.perf_counter_ns()
    for _ in range(STEPS):
        model(data).square().mean().backward()
        optimiser.step()
        optimiser.zero_grad()
    torch.cuda.synchronize()
    return (time.perf_counter_ns() - start) / STEPS


for _ in range(2):
    block()
# All ranks run the same number of pairs.
pairs = torch.tensor([min(300, max(10, int(SECONDS * 1e9 / (2 * STEPS * block()))))], device="cuda")
dist.broadcast(pairs, 0)
PAIRS = int(pairs.item())
ratios, steps = [], []
for pair in range(PAIRS):
    times = {}
    # The order alternates: on, off, then off, on. A drift then affects both equally.
    for on in (True, False) if pair % 2 == 0 else (False, True):
        library.rankscope_resume() if on else library.rankscope_pause()
        times[on] = block()
    ratios.append(times[True] / times[False] - 1)
    steps.append(times[False])
library.rankscope_resume()
ratios.sort()
mean = sum(ratios) / PAIRS
deviation = (sum((ratio - mean) ** 2 for ratio in ratios) / (PAIRS - 1)) ** 0.5
half = 1.976 * deviation / PAIRS**0.5
result = {
    "pairs": PAIRS,
    "step_ms": sum(steps) / PAIRS / 1e6,
    "change": mean,
    "interval_95": [mean - half, mean + half],
    "median": ratios[PAIRS // 2],
}
print(json.dumps(result), flush=True)
if dist.get_rank() == 0:
    with open(sys.argv[1], "w") as file:
        json.dump(result, file)
dist.destroy_process_group()
