"""What all programs have in common: a small model, synthetic data, a rank that can be slow, and the truth for the runner.

Each program trains STEPS steps on the CPU, and writes the loss of each step of each rank into TRUTH_DIR. With SLOW_MS, rank 1
sleeps for this time in each step, which changes no loss.
"""

import json
import os
import time

import torch

STEPS = 40
BATCH = 32
FEATURES = 64
CLASSES = 10
SLOW_RANK = 1
SEED = 7


def settings():
    """Makes a run repeatable. Each rank has one thread, because ranks share the processors."""
    torch.set_num_threads(1)
    torch.manual_seed(SEED)


def model():
    torch.manual_seed(SEED)
    return torch.nn.Sequential(
        torch.nn.Linear(FEATURES, 256), torch.nn.ReLU(),
        torch.nn.Linear(256, 256), torch.nn.ReLU(),
        torch.nn.Linear(256, CLASSES))


def dataset(rank, steps=STEPS):
    """All samples of a rank."""
    generator = torch.Generator().manual_seed(SEED + rank)
    inputs = torch.randn(steps * BATCH, FEATURES, generator=generator)
    labels = torch.randint(CLASSES, (steps * BATCH,), generator=generator)
    return inputs, labels


def batches(rank, steps=STEPS):
    inputs, labels = dataset(rank, steps)
    return zip(inputs.split(BATCH), labels.split(BATCH))


def late(rank):
    """The time that a slow rank takes for itself in a step."""
    if rank == SLOW_RANK:
        time.sleep(float(os.environ.get("SLOW_MS", "0")) / 1000)


def train(network, rank, data_of=None, before_update=lambda: None):
    """A plain loop. Returns the losses. `data_of` names the rank whose data it uses, if that is not its own."""
    losses = []
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    for inputs, labels in batches(rank if data_of is None else data_of):
        late(rank)
        loss = torch.nn.functional.cross_entropy(network(inputs), labels)
        loss.backward()
        before_update()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def report(rank, losses):
    with open(os.path.join(os.environ["TRUTH_DIR"], f"{rank}.json"), "w") as file:
        json.dump([float(loss) for loss in losses], file)


def finish(rank, losses):
    """Reports, and ends the process group, which the framework leaves to the exit. There its threads may abort the process."""
    report(rank, losses)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
