"""Horovod on Gloo: its own, which no preload sees."""

import horovod.torch as hvd
import torch
from common import batches, late, model, report, settings


def main():
    hvd.init()
    settings()
    rank = hvd.rank()
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=network.named_parameters())
    hvd.broadcast_parameters(network.state_dict(), root_rank=0)
    losses = []
    for inputs, labels in batches(rank):
        late(rank)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(inputs), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    report(rank, losses)
    hvd.shutdown()


main()
