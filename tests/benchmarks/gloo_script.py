"""Measures all-reduces of Gloo through PyTorch, as a script of a user does: python gloo_script.py SIZE…

Start it with torchrun. Blocks, operations per block and their mean are those of `rankscope bench` (in place). Rank 0 prints
one line of JSON per size: bytes, and the median over the blocks of the mean time, averaged over the ranks, in nanoseconds."""

import json
import statistics
import sys
import time

import torch
import torch.distributed as dist

BLOCKS, ITERATIONS, WARMUP, SETTLING = 7, 20, 5, 2

dist.init_process_group("gloo")
for size in map(int, sys.argv[1:]):
    data = torch.ones(size // 4)
    for _ in range(WARMUP):
        dist.all_reduce(data)
    blocks = []
    for _ in range(BLOCKS):
        dist.barrier()
        for _ in range(SETTLING):
            dist.all_reduce(data)
        start = time.perf_counter_ns()
        for _ in range(ITERATIONS):
            dist.all_reduce(data)
        blocks.append((time.perf_counter_ns() - start) / ITERATIONS)
    own = torch.tensor(blocks, dtype=torch.float64)
    dist.all_reduce(own)
    mean = (own / dist.get_world_size()).tolist()
    if dist.get_rank() == 0:
        print(json.dumps({"bytes": size, "ns": statistics.median(mean)}), flush=True)
dist.destroy_process_group()
