"""A benchmark of collectives, as people write them: `with_sweep.py`, by torchrun. It writes its own table of bus bandwidths.

Each operation runs after a barrier, so that ranks arrive together. It lasts until the slower rank is done. The median over all calls
counts. Payloads are large, because the time of Python and of the barrier's end counts, too. There is no all-gather: PyTorch copies
its result, which is time of the program, but not of the operation.
"""

import json
import os
import statistics
import time

import torch
import torch.distributed as dist
from common import settings

MIB = 1 << 20
CALLS = 15


def operations(size):
    """Name, call, and bytes on the bus of two ranks."""
    tensor = torch.ones(size // 4)
    return [
        ("all-reduce", lambda: dist.all_reduce(tensor), size),
        ("broadcast", lambda: dist.broadcast(tensor, 0), size),
    ]


def main():
    settings()
    dist.init_process_group("gloo")
    assert dist.get_world_size() == 2
    table = []
    for size in (64 * MIB, 256 * MIB):
        for name, call, bus_bytes in operations(size):
            times = []
            for _ in range(CALLS):
                dist.barrier()
                begin = time.perf_counter()
                call()
                times.append(time.perf_counter() - begin)
            of_ranks = [None, None]
            dist.all_gather_object(of_ranks, times)
            median = statistics.median(max(pair) for pair in zip(*of_ranks))
            table.append({"operation": name, "bytes": bus_bytes, "bus_bytes_per_s": bus_bytes / median})
    if dist.get_rank() == 0:
        with open(os.path.join(os.environ["TRUTH_DIR"], "table.json"), "w") as file:
            json.dump(table, file)
    dist.barrier()
    dist.destroy_process_group()


main()
