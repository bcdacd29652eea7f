"""Runs every collective of c10d on Gloo, once blocking and once asynchronous, and messages. A collective that this
version of PyTorch refuses is reported as {"refused": name}: a table must not expect it."""

import torch
import torch.distributed as dist

import rank
from rank import RANK, WORLD, truth

LAST = WORLD - 1


def ones(count, dtype=torch.float32):
    return torch.ones(count, dtype=dtype)


def many(count):
    return [ones(count) for _ in range(WORLD)]


def at(root, tensors):
    return tensors if RANK == root else None


def all_to_all_single(asynchronous):
    # r + p + 1 elements go from rank r to rank p.
    split = [RANK + peer + 1 for peer in range(WORLD)]
    out, given = ones(sum(split)), ones(sum(split))
    work = dist.all_to_all_single(out, given, split, split, async_op=asynchronous)
    return work, given, {"to": split, "from": split, "count": 0}


# name -> (root, function of (asynchronous) that returns the work, the tensor that is counted, more truth)
OPERATIONS = {
    "allreduce": (-1, lambda a: (dist.all_reduce(t := ones(1000), async_op=a), t, {})),
    "broadcast": (LAST, lambda a: (dist.broadcast(t := ones(77, torch.int64), src=LAST, async_op=a), t, {})),
    "reduce": (1, lambda a: (dist.reduce(t := ones(51), dst=1, async_op=a), t, {})),
    "allgather": (-1, lambda a: (dist.all_gather(many(21), t := ones(21), async_op=a), t, {})),
    "gather": (1, lambda a: (dist.gather(t := ones(41), at(1, many(41)), dst=1, async_op=a), t, {})),
    "scatter": (0, lambda a: (dist.scatter(t := ones(61), at(0, many(61)), src=0, async_op=a), t, {})),
    "reduce_scatter": (-1, lambda a: (dist.reduce_scatter(t := ones(31), many(31), async_op=a), t, {})),
    "alltoall": (-1, lambda a: (dist.all_to_all(many(13), many(13), async_op=a), ones(13), {})),
    "alltoall_base": (
        -1,
        lambda a: (dist.all_to_all_single(ones(12 * WORLD), ones(12 * WORLD), async_op=a), ones(12), {}),
    ),
    "alltoallv": (-1, all_to_all_single),
    "barrier": (-1, lambda a: (dist.barrier(async_op=a), None, {})),
}

rank.start()
for asynchronous in (False, True):
    for name, (root, call) in OPERATIONS.items():
        try:
            work, tensor, more = call(asynchronous)
            if asynchronous:
                work.wait()
        except (RuntimeError, NotImplementedError, ValueError) as error:
            # All ranks refuse it before anything is sent.
            truth(name, refused=str(error).splitlines()[0])
            continue
        truth(name, tensor, root=root, asynchronous=asynchronous, **more)

# Round the ring, with blocking and non-blocking calls: even ranks send first.
ahead, behind = (RANK + 1) % WORLD, (RANK - 1) % WORLD
out, given = ones(900, torch.uint8), ones(900, torch.uint8)
for first in (True, False):
    if (RANK % 2 == 0) == first:
        dist.send(given, ahead, tag=5)
        truth("send", given, peer=ahead, tag=5)
    else:
        dist.recv(out, behind, tag=5)
        truth("recv", out, peer=behind, tag=5)
sending, receiving = dist.isend(given[:300], ahead, tag=6), dist.irecv(out[:300], behind, tag=6)
sending.wait()
truth("send", given[:300], peer=ahead, tag=6)
receiving.wait()
truth("recv", out[:300], peer=behind, tag=6)

dist.barrier()
truth("barrier")
rank.finish()
