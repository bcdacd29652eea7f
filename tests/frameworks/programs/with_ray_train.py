"""Ray Train: a TorchTrainer with two workers."""

import os
import pathlib
import sys

import ray
import ray.train
import ray.train.torch
from ray.train import ScalingConfig
from ray.train.torch import TorchConfig, TorchTrainer

HERE = str(pathlib.Path(__file__).resolve().parent)


def work():
    sys.path.insert(0, HERE)
    from common import model, report, settings, train

    settings()
    rank = ray.train.get_context().get_world_rank()
    network = ray.train.torch.prepare_model(model())
    report(rank, train(network, rank))


def main():
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    trainer = TorchTrainer(work, scaling_config=ScalingConfig(num_workers=2), torch_config=TorchConfig(backend="gloo"))
    trainer.fit()
    ray.shutdown()


os.environ.setdefault("RAY_TRAIN_V2_ENABLED", "1")
main()
