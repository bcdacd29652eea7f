"""Accelerate's loop."""

import torch
from accelerate import Accelerator
from common import BATCH, STEPS, dataset, finish, late, model, settings


def main():
    settings()
    accelerator = Accelerator(cpu=True)
    rank = accelerator.process_index
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    inputs, labels = dataset(0, 2 * STEPS)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, labels), batch_size=BATCH)
    network, optimizer, loader = accelerator.prepare(network, optimizer, loader)
    losses = []
    for inputs, labels in loader:
        late(rank)
        loss = torch.nn.functional.cross_entropy(network(inputs), labels)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    finish(rank, losses)


main()
