"""Runs iterations that only rank 0 marks and that have no pattern: the number of operations varies."""

import random
import time

import torch
import torch.distributed as dist

import rank
from rank import truth

rank.start()
dist.barrier()
# The draws are the same on all ranks.
draw = random.Random(7)
begins = []
for iteration in range(30):
    begins.append(time.monotonic_ns())
    if rank.RANK == 0:
        torch.cuda.nvtx.range_push(f"iteration {iteration + 100}")
    # Every third iteration is long.
    time.sleep(0.012 if iteration % 3 == 2 else 0.004)
    for _ in range(draw.randint(1, 6)):
        tensor = torch.ones(draw.choice([10, 1000, 5000]))
        if draw.random() < 0.3:
            dist.broadcast(tensor, draw.randint(0, 1))
        else:
            dist.all_reduce(tensor)
    if rank.RANK == 0:
        torch.cuda.nvtx.range_pop()
begins.append(time.monotonic_ns())
for begin, end in zip(begins, begins[1:]):
    truth("step", duration_ns=end - begin)
rank.finish()
