"""Runs a training with data-loader workers that a recording process forks in each epoch: EPOCHS epochs of two workers
each. Workers do not communicate and must leave nothing behind."""

import os

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

import rank
from rank import RANK, truth


class Numbers(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, at):
        return torch.full((4,), float(at))


rank.start()
for epoch in range(int(os.environ.get("EPOCHS", "10"))):
    loader = DataLoader(Numbers(), batch_size=2, num_workers=2, multiprocessing_context="fork")
    for batch in loader:
        total = batch.sum().reshape(1).repeat(10 + epoch)
        dist.all_reduce(total)
        truth("allreduce", total)
        print(f"epoch {epoch}: {total[0].item()}", flush=True)
dist.barrier()
truth("barrier")
rank.finish()
