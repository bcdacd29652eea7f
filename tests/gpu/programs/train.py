"""Runs a training whose every step communicates, on the rank's GPU: DDP, or FSDP with --fsdp."""
import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=50)
parser.add_argument("--fsdp", action="store_true")
arguments = parser.parse_args()

torch.cuda.set_device(0)
dist.init_process_group("nccl")
rank = dist.get_rank()
torch.manual_seed(1)
layers = [torch.nn.Linear(512, 512) for _ in range(8)]
model = torch.nn.Sequential(*[part for layer in layers for part in (layer, torch.nn.ReLU())]).cuda()
if arguments.fsdp:
    from torch.distributed.fsdp import fully_shard

    for layer in layers:
        fully_shard(layer)
    fully_shard(model)
else:
    model = DistributedDataParallel(model, device_ids=[0], bucket_cap_mb=1)
optimiser = torch.optim.SGD(model.parameters(), lr=1e-3)
for step in range(arguments.steps):
    data = torch.randn(64, 512, device="cuda")
    loss = model(data).square().mean()
    loss.backward()
    optimiser.step()
    optimiser.zero_grad()
torch.cuda.synchronize()
print(f"rank {rank}: {arguments.steps} steps, loss {loss.item():.6f}", flush=True)
dist.destroy_process_group()
