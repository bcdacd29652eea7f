"""verl's worker groups on the CPU: two roles of two ranks each. `with_verl.py separate|colocated`

verl itself trains with vLLM on GPUs. Its controller and its workers do not need them.
"""

import pathlib
import sys

import ray
from common import STEPS, report
from verl.single_controller.base import Worker
from verl.single_controller.base.decorator import Dispatch, register
from verl.single_controller.ray import RayClassWithInitArgs, RayResourcePool, RayWorkerGroup, create_colocated_worker_cls

HERE = str(pathlib.Path(__file__).resolve().parent)


class Role(Worker):
    def __init__(self, seed):
        super().__init__()
        self.seed = seed

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def begin(self):
        sys.path.insert(0, HERE)
        import torch
        import torch.distributed as dist
        from common import batches, model, settings

        settings()
        if not dist.is_initialized():
            dist.init_process_group("gloo", rank=self.rank, world_size=self.world_size)
        self.network = torch.nn.parallel.DistributedDataParallel(model())
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=0.01)
        self.batches = batches(self.seed + self.rank)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def update(self):
        import torch
        from common import late

        late(self.rank)
        inputs, labels = next(self.batches)
        loss = torch.nn.functional.cross_entropy(self.network(inputs), labels)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def finish(self):
        import torch.distributed as dist

        if dist.is_initialized():
            dist.barrier()
            dist.destroy_process_group()


class ActorRole(Role):
    pass


class CriticRole(Role):
    pass


def group(name, role):
    pool = RayResourcePool([2], use_gpu=False, max_colocate_count=1, name_prefix=name)
    return RayWorkerGroup(pool, role, name_prefix=name, device_name="cpu")


def main():
    ray.init(num_cpus=8, include_dashboard=False, log_to_driver=False)
    roles = {
        "actor": RayClassWithInitArgs(ray.remote(ActorRole), 7),
        "critic": RayClassWithInitArgs(ray.remote(CriticRole), 9),
    }
    if sys.argv[1] == "separate":
        groups = {name: group(name, role) for name, role in roles.items()}
    else:
        pool = RayResourcePool([2], use_gpu=False, max_colocate_count=2)
        groups = RayWorkerGroup(pool, create_colocated_worker_cls(roles), device_name="cpu").spawn(set(roles))
    for name in roles:
        groups[name].begin()
    losses = {name: [] for name in roles}
    for _ in range(STEPS):
        for name in roles:
            losses[name].append(groups[name].update())
    for name in roles:
        groups[name].finish()
    for number, name in enumerate(roles):
        for rank, of_rank in enumerate(zip(*losses[name])):
            report(2 * number + rank, of_rank)
    ray.shutdown()


main()
