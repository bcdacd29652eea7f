"""Runs a pipeline of two stages over Gloo's own messages, in replicas that reduce their gradients.

Sends and receives are real, and work is a sleep, so that ranks may share cores. The steady state is one forward, one
backward pass. STEPS and MICRO are the numbers of steps and micro-batches, REPLICAS that of pipelines. FORWARD_MS is the
time of a micro-batch on a stage; the backward pass takes as long. HEAVY=STAGE:FACTOR makes a stage slower, LATE=RANK:MS
makes one rank late in each step. SAVE_EVERY=N: rank 0 saves a checkpoint.
"""
import os
import tempfile
import time

import torch
import torch.distributed as dist

import rank as this
from rank import RANK, WORLD, truth

STAGES = 2
STEPS = int(os.environ.get("STEPS", "40"))
MICRO = int(os.environ.get("MICRO", "4"))
FORWARD = float(os.environ.get("FORWARD_MS", "3")) / 1000
HEAVY = os.environ.get("HEAVY", "")
LATE = os.environ.get("LATE", "")
SAVE_EVERY = int(os.environ.get("SAVE_EVERY", "0"))


def work(seconds):
    time.sleep(seconds)


def main():
    this.start()
    rank, size = RANK, WORLD
    replicas = size // STAGES
    stage, replica = rank % STAGES, rank // STAGES
    groups = [dist.new_group([other * STAGES + of for other in range(replicas)]) for of in range(STAGES)]
    before = rank - 1 if stage > 0 else None
    behind = rank + 1 if stage < STAGES - 1 else None
    forward = FORWARD
    if HEAVY and int(HEAVY.split(":")[0]) == stage:
        forward *= float(HEAVY.split(":")[1])
    late = float(LATE.split(":")[1]) / 1000 if LATE and int(LATE.split(":")[0]) == rank else 0.0
    activation = torch.zeros(1024)
    gradient = torch.zeros(4096)

    # The sender continues: the peer may be sending too, and Gloo's send waits for its receive.
    sending = []

    def forward_pass():
        if before is not None:
            dist.recv(activation, before)
        work(forward)
        if behind is not None:
            sending.append(dist.isend(activation, behind))

    def backward_pass():
        if behind is not None:
            dist.recv(activation, behind)
        work(forward)
        if before is not None:
            sending.append(dist.isend(activation, before))

    dist.barrier()
    for step in range(STEPS):
        if late:
            work(late)
        warm_up = min(STAGES - 1 - stage, MICRO)
        for _ in range(warm_up):
            forward_pass()
        for _ in range(MICRO - warm_up):
            forward_pass()
            backward_pass()
        for _ in range(warm_up):
            backward_pass()
        while sending:
            sending.pop().wait()
        if replicas > 1:
            dist.all_reduce(gradient, group=groups[stage])
        if SAVE_EVERY and rank == 0 and step % SAVE_EVERY == SAVE_EVERY - 1:
            begin = time.monotonic_ns()
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "checkpoint.pt")
                torch.save({"gradient": torch.zeros(1 << 22)}, path)
                truth("save", step=step, begin_ns=begin, end_ns=time.monotonic_ns())
                begin = time.monotonic_ns()
                torch.load(path)
                truth("load", step=step, begin_ns=begin, end_ns=time.monotonic_ns())
    dist.barrier()
    this.finish()


main()
