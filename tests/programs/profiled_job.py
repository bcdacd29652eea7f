"""Runs a training on two ranks over Gloo, recorded by torch.profiler: profiled_job.py DIRECTORY.

Each of the four recorded steps has an all-reduce by DistributedDataParallel and one of 1000 floats in a second group.
It also has an all-gather of 10 floats, a message of 100 floats from rank 0 to 1, a barrier, and a broadcast of 1000
floats. Rank 1 sleeps 30 ms before the barrier."""

import sys
import time

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile, schedule

directory = sys.argv[1]
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
group = dist.new_group([0, 1])


def save(profiler):
    profiler.export_chrome_trace(f"{directory}/rank{rank}.pt.trace.json.gz")


with profile(
    activities=[ProfilerActivity.CPU],
    schedule=schedule(wait=1, warmup=1, active=4),
    record_shapes=True,
    on_trace_ready=save,
) as profiler:
    for _ in range(6):
        model(torch.randn(32, 64)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        values = torch.ones(1000)
        dist.all_reduce(values, group=group)
        dist.all_gather([torch.empty(10) for _ in range(2)], torch.ones(10))
        if rank == 0:
            dist.send(torch.ones(100), 1)
        else:
            dist.recv(torch.ones(100), 0)
            time.sleep(0.03)
        dist.barrier()
        dist.broadcast(values, 0)
        profiler.step()
dist.destroy_process_group()
