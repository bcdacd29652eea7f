"""Runs two threads per rank with 60 asynchronous all-reduces each, each thread on its own group. Even and odd ranks
start with different threads, so that Gloo's workers enter in different orders. Every operation has a different size, so
a wrong pairing is detected."""

import random
import threading
import time

import torch
import torch.distributed as dist

import rank
from rank import RANK, WORLD, truth

rank.start()
groups = [dist.new_group(list(range(WORLD))) for _ in range(2)]
lock = threading.Lock()


def work(number):
    chance = random.Random(10 * RANK + number)
    pending = []
    for turn in range(60):
        tensor = torch.ones(16 + 2 * turn + number)
        time.sleep(chance.random() / 1000)
        pending.append((dist.all_reduce(tensor, group=groups[number], async_op=True), tensor))
        # Up to four are in flight, and the newest is waited for first.
        if len(pending) == 4 or turn == 59:
            for handle, done in reversed(pending):
                handle.wait()
                assert done[0].item() == WORLD
                with lock:
                    truth("allreduce", done, group=f"thread {number}")
            pending.clear()


threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
for thread in threads if RANK % 2 == 0 else reversed(threads):
    thread.start()
for thread in threads:
    thread.join()
dist.barrier()
truth("barrier")
rank.finish()
