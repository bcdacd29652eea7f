"""Runs DDP with several gradient buckets for STEPS steps. Rank SLOW_RANK sleeps SLOW_MS in each. The truth has each
step's duration and loss (which must not depend on the recording).

BUCKET_CAP_MB and FIND_UNUSED are DDP's own. All ranks pause for PAUSE_MS every PAUSE_EVERY steps, as for a checkpoint,
and reduce METRICS numbers one by one in each step."""

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
model = DistributedDataParallel(
    model,
    bucket_cap_mb=float(os.environ.get("BUCKET_CAP_MB", "0.5")),
    find_unused_parameters=os.environ.get("FIND_UNUSED") == "1",
)
PAUSE_EVERY = int(os.environ.get("PAUSE_EVERY", "0"))
METRICS = int(os.environ.get("METRICS", "0"))
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
    for metric in range(METRICS):
        dist.all_reduce(torch.tensor([float(metric)]))
    if PAUSE_EVERY and step % PAUSE_EVERY == PAUSE_EVERY - 1:
        time.sleep(float(os.environ.get("PAUSE_MS", "100")) / 1000)
    truth("step", step=step, begin_ns=begin, end_ns=time.monotonic_ns(), loss=loss.item())
dist.barrier()
rank.finish()
