"""Runs three worlds one after another in the same processes: store keys, tags and often addresses repeat."""

import os

import torch
import torch.distributed as dist

import rank
from rank import truth

port = int(os.environ["MASTER_PORT"])
for life in range(3):
    # The server of the default store remains for a while, so each world uses the next port.
    os.environ["MASTER_PORT"] = str(port + life)
    rank.start()
    for turn in range(4):
        tensor = torch.ones(10 * (life + 1) + turn)
        dist.all_reduce(tensor)
        truth("allreduce", tensor, group=f"world {life}")
    dist.barrier()
    truth("barrier", group=f"world {life}")
    rank.finish()
