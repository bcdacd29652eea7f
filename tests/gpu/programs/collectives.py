"""Runs every collective once with a distinct size, and writes a report to the named file (rank 0)."""
import json
import sys

import torch
import torch.distributed as dist

torch.cuda.set_device(0)
dist.init_process_group("nccl")
rank, size = dist.get_rank(), dist.get_world_size()
operations = []


def tensor(count, value=1.0):
    return torch.full((count,), value, device="cuda")


def note(name, count):
    torch.cuda.synchronize()
    operations.append({"operation": name, "bytes": 4 * count})


one = tensor(1001)
dist.all_reduce(one)
assert one[0].item() == size
note("all-reduce", 1001)
dist.broadcast(tensor(1002), 0)
note("broadcast", 1002)
dist.reduce(tensor(1003), size - 1)
note("reduce", 1003)
dist.all_gather_into_tensor(tensor(1004 * size), tensor(1004))
note("all-gather", 1004)
dist.reduce_scatter_tensor(tensor(1005), tensor(1005 * size))
note("reduce-scatter", 1005)
right, left = (rank + 1) % size, (rank - 1) % size
for work in dist.batch_isend_irecv(
    [dist.P2POp(dist.isend, tensor(1006), right), dist.P2POp(dist.irecv, tensor(1006), left)]
):
    work.wait()
note("send", 1006)
operations.append({"operation": "receive", "bytes": 4 * 1006})
group = dist.new_group(list(range(size)))
dist.all_reduce(tensor(1007), group=group)
note("all-reduce", 1007)
if rank == 0:
    with open(sys.argv[1], "w") as file:
        json.dump({"ranks": size, "operations": operations}, file)
dist.destroy_process_group()
