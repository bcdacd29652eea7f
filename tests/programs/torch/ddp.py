"""DDP with several gradient buckets. STEPS steps; rank SLOW_RANK sleeps SLOW_MS in each. The truth has
each step's duration and loss (which must not depend on being recorded)."""

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import rank
from rank import RANK, truth

rank.start()
torch.manual_seed(0)
model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(8)))
model = DistributedDataParallel(model, bucket_cap_mb=0.5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
torch.manual_seed(RANK)

for step in range(int(os.environ.get("STEPS", "20"))):
    begin = time.monotonic_ns()
    if RANK == int(os.environ.get("SLOW_RANK", "-1")):
        time.sleep(float(os.environ.get("SLOW_MS", "50")) / 1000)
    inputs = torch.randn(64, 256)
    loss = torch.nn.functional.mse_loss(model(inputs), inputs)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    truth("step", step=step, begin_ns=begin, end_ns=time.monotonic_ns(), loss=loss.item())
dist.barrier()
rank.finish()
