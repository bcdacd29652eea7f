"""Runs all-reduces for ever (or COUNT times) and reports the number of completed ones on descriptor 3 after each, as
../gloo_counter.cc does. A recorder must have kept the last number that a reader received."""

import os
import struct

import torch
import torch.distributed as dist

import rank

rank.start()
limit = int(os.environ.get("COUNT", "0"))
done = 0
while limit == 0 or done < limit:
    dist.all_reduce(torch.ones(64))
    done += 1
    os.write(3, struct.pack("=Q", done))
rank.finish()
