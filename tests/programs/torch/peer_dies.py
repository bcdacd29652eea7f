"""The last rank dies without notice. The others get a RuntimeError from the all-reduce and exit with 7."""

import os
import sys

import torch
import torch.distributed as dist

import rank
from rank import RANK, WORLD, truth

rank.start(timeout=20)
for turn in range(10):
    tensor = torch.ones(32 + turn)
    dist.all_reduce(tensor)
    truth("allreduce", tensor)
if RANK == WORLD - 1:
    os._exit(0)
try:
    for _ in range(2):
        dist.all_reduce(torch.ones(99))
except RuntimeError:
    print("caught a RuntimeError", flush=True)
    rank.settle()
    sys.exit(7)
sys.exit(1)
