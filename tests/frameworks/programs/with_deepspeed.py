"""DeepSpeed on the CPU: `with_deepspeed.py STAGE [offload]`, by its own launcher or torchrun."""

import os
import sys

import deepspeed
import rankscope
import torch
from common import BATCH, batches, finish, late, model, settings


def main():
    settings()
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    stage = int(words[0])
    deepspeed.init_distributed(dist_backend="gloo")
    rank = int(os.environ["RANK"])
    configuration = {
        "train_micro_batch_size_per_gpu": BATCH,
        "zero_optimization": {"stage": stage, "reduce_bucket_size": 100000},
        # The optimizers that DeepSpeed has tested need a compiler at run time.
        "zero_allow_untested_optimizer": True,
        "zero_force_ds_cpu_optimizer": False,
    }
    if "offload" in words:
        configuration["zero_optimization"]["offload_optimizer"] = {"device": "cpu"}
        if stage == 3:
            configuration["zero_optimization"]["offload_param"] = {"device": "cpu"}
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    engine, *_ = deepspeed.initialize(model=network, optimizer=optimizer, config=configuration)
    rankscope.span_methods(engine, "forward", "backward", "step")
    losses = []
    for inputs, labels in batches(rank):
        late(rank)
        loss = torch.nn.functional.cross_entropy(engine(inputs), labels)
        engine.backward(loss)
        engine.step()
        losses.append(loss.item())
    finish(rank, losses)


main()
