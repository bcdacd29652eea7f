"""Rank 1 never joins the last all-reduce. The caller must end this program."""
import time

import torch
import torch.distributed as dist

torch.cuda.set_device(0)
dist.init_process_group("nccl")
for _ in range(10):
    dist.all_reduce(torch.ones(1024, device="cuda"))
torch.cuda.synchronize()
if dist.get_rank() == 0:
    dist.all_reduce(torch.ones(1025, device="cuda"))
    print("waiting", flush=True)
    torch.cuda.synchronize()
time.sleep(3600)
