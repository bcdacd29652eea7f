"""Runs overlapping groups: all ranks, all but the last, all but the first, and each pair of neighbours. Gloo's store
prefix is the same in all of them: only a real identity distinguishes them."""

import torch
import torch.distributed as dist

import rank
from rank import RANK, WORLD, truth

rank.start()
members = {"head": list(range(WORLD - 1)), "tail": list(range(1, WORLD))}
for left in range(WORLD - 1):
    members[f"pair {left}"] = [left, left + 1]
# Every rank must call new_group for every group, in the same order.
groups = {name: dist.new_group(ranks) for name, ranks in members.items()}

for turn in range(5):
    for number, (name, group) in enumerate(groups.items()):
        if RANK in members[name]:
            tensor = torch.ones(100 * (number + 1) + turn)
            dist.all_reduce(tensor, group=group)
            assert tensor[0].item() == len(members[name])
            truth("allreduce", tensor, group=name)
    tensor = torch.ones(50 + turn)
    dist.all_reduce(tensor)
    truth("allreduce", tensor)

dist.barrier()
truth("barrier")
rank.finish()
