"""Ludwig with a small model and a synthetic table: `with_ludwig.py ray`, or `with_ludwig.py ddp` by torchrun.

Its Ray backend does not train jointly: `train_fn` in ludwig/backend/ray.py uses the strategy `local` (0.11.0 to 0.17.10). Each
worker believes that it is rank 0, and only metrics communicate.
"""

import csv
import os
import random
import sys
import tempfile

# A report of progress ends each step. It blocks all ranks until the controller has polled, by default each 2 s.
os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.1")

from common import BATCH, SEED, STEPS, late, report, settings
from ludwig.api import LudwigModel
from ludwig.callbacks import Callback

WORKERS, FEATURES = 2, 2


def rank_of(trainer):
    import ray

    if ray.is_initialized():
        # Here Ludwig calls each worker rank 0.
        import ray.train

        return ray.train.get_context().get_world_rank()
    return trainer.distributed.rank()


class Truth(Callback):
    """Records the loss of each step, and makes a rank slow."""

    def on_trainer_train_setup(self, trainer, save_path, is_coordinator):
        settings()
        rank = rank_of(trainer)
        losses = []
        step = trainer.train_step

        def train_step(*words, **named):
            late(rank)
            result = step(*words, **named)
            losses.append(float(result[0].detach()))
            report(rank, losses)
            return result

        trainer.train_step = train_step


def torchrun_backend():
    """Ludwig's DDP strategy in the processes of torchrun. Its backend for DeepSpeed fails in 0.11.0: initialize_pytorch() has no
    parameter local_rank."""
    import torch.distributed as dist
    from ludwig.backend.base import DataParallelBackend
    from ludwig.distributed import init_dist_strategy
    from ludwig.utils.torch_utils import initialize_pytorch

    class TorchrunBackend(DataParallelBackend):
        BACKEND_TYPE = "torchrun"

        def initialize(self):
            dist.init_process_group("gloo")
            self._distributed = init_dist_strategy("ddp")

        def initialize_pytorch(self, *args, **kwargs):
            initialize_pytorch()

    return TorchrunBackend()


def write_table(path):
    """Ludwig's fixed split: 0 trains, 1 validates, 2 tests."""
    draw = random.Random(SEED)
    with open(path, "w", newline="") as file:
        out = csv.writer(file)
        out.writerow([*(f"x{feature}" for feature in range(FEATURES)), "y", "split"])
        for split, rows in ((0, STEPS * BATCH * WORKERS), (1, 128), (2, 128)):
            for _ in range(rows):
                values = [draw.gauss(0, 1) for _ in range(FEATURES)]
                out.writerow([*(f"{value:.6f}" for value in values), f"{sum(values):.6f}", split])


def main():
    configuration = {
        "input_features": [{"name": f"x{feature}", "type": "number"} for feature in range(FEATURES)],
        "output_features": [{"name": "y", "type": "number"}],
        "combiner": {"type": "concat", "num_fc_layers": 2, "output_size": 256},
        "preprocessing": {"split": {"type": "fixed", "column": "split"}},
        "trainer": {"epochs": 1, "batch_size": BATCH, "learning_rate": 0.001, "optimizer": {"type": "sgd"}},
    }
    backend = None
    if sys.argv[1] == "ray":
        import ray

        configuration["backend"] = {
            "type": "ray", "processor": {"type": "dask", "parallelism": 2},
            "trainer": {"num_workers": WORKERS, "use_gpu": False, "strategy": "ddp", "resources_per_worker": {"CPU": 1}}}
        ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    else:
        backend = torchrun_backend()
    with tempfile.TemporaryDirectory() as folder:
        table = os.path.join(folder, "table.csv")
        write_table(table)
        model = LudwigModel(configuration, logging_level=30, callbacks=[Truth()], backend=backend)
        model.train(dataset=table, output_directory=folder, random_seed=SEED, skip_save_processed_input=True,
                    skip_save_model=True, skip_save_progress=True, skip_save_log=True)
    if backend is not None:
        import torch.distributed as dist

        dist.barrier()
        dist.destroy_process_group()


main()
