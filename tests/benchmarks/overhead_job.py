"""The job whose slowdown is measured: DDP on Gloo with a small model and many short steps.

Every rank runs the same blocks of steps. In a "blocks" run the preloaded library records in one block of each pair and
pauses in the other, in an order drawn from a common seed. Rank 0 writes the time of every block. In a "steps" run
nothing is switched, and rank 0 writes the time of every step after the warm-up. In a "times" run it writes when every step
ended, in nanoseconds since 1970. PROFILER=DIR runs torch.profiler over
the whole run and exports its trace, for comparison.
"""

import ctypes
import json
import os
import random
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

WARM_UP, BLOCK_STEPS = 20, 24


def main():
    mode, count, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(rank)
    model = nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.ReLU())])
    model = DistributedDataParallel(model, bucket_cap_mb=0.3)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randn(256, 256)

    def step():
        optimizer.zero_grad()
        model(data).square().mean().backward()
        optimizer.step()

    def steps(number):
        start = time.perf_counter_ns()
        for _ in range(number):
            step()
        return time.perf_counter_ns() - start

    for _ in range(WARM_UP):
        step()
    result = []
    if mode == "blocks":
        library = ctypes.CDLL(None)
        switch = {True: library.rankscope_resume, False: library.rankscope_pause}
        order = random.Random(20)
        for _ in range(count):
            first = order.random() < 0.5
            times = {}
            for recording in (first, not first):
                switch[recording]()
                # One untimed step after the switch: all ranks have passed it when the block starts.
                step()
                times[recording] = steps(BLOCK_STEPS)
            result.append([times[True], times[False]])
        switch[True]()
    elif "PROFILER" in os.environ:
        activities = [torch.profiler.ProfilerActivity.CPU]
        with torch.profiler.profile(activities=activities) as profiler:
            result = [steps(1) for _ in range(count)]
        profiler.export_chrome_trace(os.path.join(os.environ["PROFILER"], f"rank{rank}.json"))
    elif mode == "times":
        for _ in range(count):
            step()
            result.append(time.time_ns())
    else:
        result = [steps(1) for _ in range(count)]
    dist.barrier()
    if rank == 0:
        with open(out, "w") as file:
            json.dump(result, file)
    dist.destroy_process_group()
    time.sleep(0.2)


if __name__ == "__main__":
    main()
