"""Trains a small data-parallel model on the CPU: a character model learns to add.

    torchrun --nproc-per-node 4 examples/ddp/train.py

One rank, drawn by rank 0, loads its data slowly: rankscope can find it.
SLOW=none slows no rank, SLOW=2 slows rank 2. DEMO_TRUTH names a file that gets the answer.
"""

import os
import random
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS = int(os.environ.get("STEPS", "80"))
SLOW_MS = float(os.environ.get("SLOW_MS", "50"))
LETTERS = "0123456789+=;"
BATCH, LENGTH, WIDTH = 12, 40, 128


class Characters(nn.Module):
    """Predicts the next character from those before it."""

    def __init__(self):
        super().__init__()
        self.letter = nn.Embedding(len(LETTERS), WIDTH)
        self.place = nn.Embedding(LENGTH, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4)
        self.next = nn.Linear(WIDTH, len(LETTERS))
        self.register_buffer("future", torch.triu(torch.full((LENGTH, LENGTH), float("-inf")), 1))

    def forward(self, text):
        places = torch.arange(text.shape[1])
        return self.next(self.layers(self.letter(text) + self.place(places), mask=self.future))


def sums(chance):
    """Returns text such as 12+7=19;3+40=43;... as numbers of letters."""
    text = ""
    while len(text) <= LENGTH:
        a, b = chance.randrange(50), chance.randrange(50)
        text += f"{a}+{b}={a + b};"
    return [LETTERS.index(letter) for letter in text[: LENGTH + 1]]


def load(chance, slow):
    if slow:
        # Uses processor time instead of a sleep: with fewer cores than ranks, the others would use the pause.
        end = time.thread_time() + SLOW_MS / 1000
        while time.thread_time() < end:
            sums(random)
    batch = torch.tensor([sums(chance) for _ in range(BATCH)])
    return batch[:, :-1], batch[:, 1:]


def draw_slow_rank(world):
    """Returns the slow rank, which only the ranks learn, from rank 0."""
    asked = os.environ.get("SLOW", "")
    number = {"": random.SystemRandom().randrange(world), "none": -1}.get(asked)
    drawn = torch.tensor([int(asked) if number is None else number])
    dist.broadcast(drawn, src=0)
    return drawn.item()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    slow_rank = draw_slow_rank(world)

    torch.manual_seed(0)
    model = DistributedDataParallel(Characters(), bucket_cap_mb=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    criterion = nn.CrossEntropyLoss()
    chance = random.Random(rank)

    for step in range(1, STEPS + 1):
        text, following = load(chance, rank == slow_rank)
        loss = criterion(model(text).flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step:4d}  loss {loss.item():.3f}", flush=True)

    dist.barrier()
    if rank == 0 and "DEMO_TRUTH" in os.environ:
        with open(os.environ["DEMO_TRUTH"], "w") as file:
            print("none" if slow_rank < 0 else slow_rank, file=file)
    dist.destroy_process_group()
    # PyTorch's Gloo thread may still release a tensor. At the end of Python that would abort the process.
    time.sleep(0.2)


if __name__ == "__main__":
    main()
