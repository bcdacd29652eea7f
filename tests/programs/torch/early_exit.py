"""Runs ranks that stop by themselves at different times. Rank r exchanges 10 (r + 1) messages with rank 0 and then
leaves: odd ranks by os._exit, even ones at the end of the script."""

import os

import torch
import torch.distributed as dist

import rank
from rank import RANK, WORLD, truth

rank.start()
if RANK == 0:
    for turn in range(10 * WORLD):
        for peer in range(1, WORLD):
            if turn < 10 * (peer + 1):
                tensor = torch.ones(64 + turn)
                dist.send(tensor, peer)
                truth("send", tensor, peer=peer)
else:
    for turn in range(10 * (RANK + 1)):
        tensor = torch.zeros(64 + turn)
        dist.recv(tensor, 0)
        truth("recv", tensor, peer=0)
    if RANK % 2 == 1:
        os._exit(5)
rank.settle()
