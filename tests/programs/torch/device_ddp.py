"""Trains with DDP on devices for STEPS steps, on BACKEND. Rank SLOW_RANK sleeps SLOW_MS in each. If STEPS is
not set, the program then calls each collective of torch.distributed in three groups, and checks the data. Runs on
tests/host-nccl.

The truth has each step's loss (`step`), and each operation of PyTorch's Flight Recorder (`issued`). The latter are in the
order of the calls, with the bytes of their tensors."""
import math
import os
import pickle
import time

BACKEND = os.environ.get("BACKEND", "nccl")
os.environ["TORCH_FR_BUFFER_SIZE"] = "4096"
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import host_operations  # noqa: F401
import rank
from rank import RANK, WORLD, truth

torch.cuda.set_device(RANK)
rank.start(backend=BACKEND)


def device(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).cuda()


def expect(found, values):
    found = [tensor.cpu() for tensor in (found if isinstance(found, list) else [found])]
    assert torch.equal(torch.cat(found), torch.tensor(values, dtype=found[0].dtype)), (found, values)


def train():
    torch.manual_seed(0)
    layers = [torch.nn.Linear(256, 256) for _ in range(8)]
    model = torch.nn.Sequential(torch.nn.Embedding(100, 256), *layers, torch.nn.LayerNorm(256), torch.nn.Linear(256, 100))
    model = DistributedDataParallel(model.cuda(), bucket_cap_mb=0.5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    words = torch.Generator().manual_seed(RANK)
    for step in range(int(os.environ.get("STEPS", "10"))):
        if RANK == int(os.environ.get("SLOW_RANK", "-1")):
            time.sleep(float(os.environ.get("SLOW_MS", "50")) / 1000)
        inputs = torch.randint(0, 100, (64,), generator=words).cuda()
        loss = torch.nn.functional.cross_entropy(model(inputs), (inputs + 1) % 100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        truth("step", step=step, loss=mean.item())


def collectives(group, ranks):
    """Calls each collective in a group of these ranks."""
    size, place = len(ranks), ranks.index(RANK)
    total = size * (size + 1) // 2
    mine = [place + 1.0] * 8
    tensor = device(mine)
    dist.all_reduce(tensor, group=group)
    expect(tensor, [float(total)] * 8)
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8):
        tensor = device([place + 1] * 4, dtype)
        work = dist.all_reduce(tensor, group=group, async_op=True)
        work.wait()
        expect(tensor, [total] * 4)
    tensor = device(mine)
    dist.broadcast(tensor, ranks[-1], group=group)
    expect(tensor, [float(size)] * 8)
    tensor = device(mine)
    dist.reduce(tensor, ranks[0], op=dist.ReduceOp.MAX, group=group)
    if place == 0:
        expect(tensor, [float(size)] * 8)
    everyone = [value + 1.0 for value in range(size) for _ in range(8)]
    gathered = torch.empty(8 * size, device="cuda")
    dist.all_gather_into_tensor(gathered, device(mine), group=group)
    expect(gathered, everyone)
    parts = [torch.empty(8, device="cuda") for _ in range(size)]
    dist.all_gather(parts, device(mine), group=group)
    expect(parts, everyone)
    scattered = torch.empty(8, device="cuda")
    dist.reduce_scatter_tensor(scattered, device(everyone), group=group)
    expect(scattered, [size * value for value in mine])
    dist.reduce_scatter(scattered, list(device(everyone).split(8)), group=group)
    expect(scattered, [size * value for value in mine])
    exchanged = torch.empty(size, device="cuda")
    dist.all_to_all_single(exchanged, device([10.0 * place + other for other in range(size)]), group=group)
    expect(exchanged, [10.0 * other + place for other in range(size)])
    parts = [torch.empty(4, device="cuda") for _ in range(size)]
    dist.all_to_all(parts, [device([10.0 * place + other] * 4) for other in range(size)], group=group)
    expect(parts, [10.0 * other + place for other in range(size) for _ in range(4)])
    parts = [torch.empty(8, device="cuda") for _ in range(size)] if place == 0 else None
    dist.gather(device(mine), parts, ranks[0], group=group)
    if place == 0:
        expect(parts, everyone)
    parts = list(device(everyone).split(8)) if place == 0 else None
    dist.scatter(scattered, parts, ranks[0], group=group)
    expect(scattered, mine)
    messages(group, ranks)
    dist.barrier(group=group)


def messages(group, ranks):
    """Sends to the next rank: alone, and as a ring of messages in one group."""
    size, place = len(ranks), ranks.index(RANK)
    after, before = ranks[(place + 1) % size], ranks[place - 1]
    tensor = device([float(RANK)] * 5)
    got = torch.empty(5, device="cuda")
    if place == 0:
        dist.send(tensor, after, group=group)
    elif place == 1:
        dist.recv(got, before, group=group)
        expect(got, [float(before)] * 5)
    sending = dist.P2POp(dist.isend, tensor, after, group=group)
    receiving = dist.P2POp(dist.irecv, got, before, group=group)
    for work in dist.batch_isend_irecv([sending, receiving]):
        work.wait()
    expect(got, [float(before)] * 5)


def issued():
    """Reports what the Flight Recorder knows."""
    if BACKEND == "nccl-legacy":
        packed = torch._C._distributed_c10d._dump_nccl_trace(includeStackTraces=False)
    else:
        packed = torch._C._distributed_c10d._dump_fr_trace(includeStackTraces=False, backend="nccl2")
    sizes = {"Byte": 1, "Half": 2, "BFloat16": 2, "Int": 4, "Float": 4, "Long": 8, "Double": 8}
    for entry in pickle.loads(packed)["entries"]:
        of_tensors = {}
        for side in ("input", "output"):
            tensors = zip(entry[f"{side}_sizes"], entry[f"{side}_dtypes"])
            of_tensors[side] = [math.prod(shape) * sizes.get(dtype, 0) for shape, dtype in tensors]
        name = entry["profiling_name"].partition(":")[2].partition(" ")[0]
        truth("issued", group=entry["process_group"][1], name=name, inputs=of_tensors["input"], outputs=of_tensors["output"])


train()
if "STEPS" not in os.environ:
    everyone = list(range(WORLD))
    collectives(None, everyone)
    for ranks in ([0, 1], everyone):
        group = dist.new_group(ranks, group_desc=f"group of {len(ranks)}")
        if RANK in ranks:
            collectives(group, ranks)
torch.cuda.synchronize()
issued()
rank.finish()
