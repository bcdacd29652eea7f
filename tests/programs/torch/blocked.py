"""Makes a known wait: each rank in turn sleeps BLOCKED_MS before an all-reduce, and all others are blocked for that
time. The program measures `slept_ns` and `blocked_ns` around its own calls."""

import os
import time

import torch
import torch.distributed as dist

import rank
from rank import RANK, WORLD, truth

milliseconds = int(os.environ.get("BLOCKED_MS", "200"))
asynchronous = os.environ.get("BLOCKED_ASYNC") == "1"

rank.start()
dist.barrier()
truth("barrier")
for turn in range(int(os.environ.get("BLOCKED_TURNS", "2")) * WORLD):
    # The barrier aligns the ranks, so that the sleep is the only difference.
    dist.barrier()
    truth("barrier")
    tensor = torch.ones(1000 + turn)
    begin = time.monotonic_ns()
    if turn % WORLD == RANK:
        time.sleep(milliseconds / 1000)
    issue = time.monotonic_ns()
    if asynchronous:
        dist.all_reduce(tensor, async_op=True).wait()
    else:
        dist.all_reduce(tensor)
    leave = time.monotonic_ns()
    truth("allreduce", tensor, late=turn % WORLD, slept_ns=issue - begin, blocked_ns=leave - issue)
dist.barrier()
truth("barrier")
rank.finish()
