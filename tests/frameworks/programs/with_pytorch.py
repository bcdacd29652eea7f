"""PyTorch alone: `with_pytorch.py ddp|hook|fsdp|fsdp1|pipeline|tensor|compile|inductor|elastic|checkpoint`, by torchrun."""

import contextlib
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from common import STEPS, batches, finish, late, model, settings, train


def of_ddp(network, rank):
    wrapped = torch.nn.parallel.DistributedDataParallel(network, bucket_cap_mb=0.2, find_unused_parameters=True)
    losses = []
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.01)
    for step, (inputs, labels) in enumerate(batches(rank)):
        late(rank)
        # Every fourth step only accumulates.
        is_quiet = step % 4 == 3
        with wrapped.no_sync() if is_quiet else contextlib.nullcontext():
            loss = torch.nn.functional.cross_entropy(wrapped(inputs), labels)
            loss.backward()
        if not is_quiet:
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def of_hook(network, rank):
    """A static graph, and gradients that are reduced as 16-bit numbers."""
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    wrapped = torch.nn.parallel.DistributedDataParallel(network, bucket_cap_mb=0.2, static_graph=True)
    wrapped.register_comm_hook(None, fp16_compress_hook)
    return train(wrapped, rank)


def of_fsdp(network, rank):
    from torch.distributed.fsdp import fully_shard

    for layer in network:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer)
    fully_shard(network)
    return train(network, rank)


def of_fsdp1(network, rank):
    """The older interface."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    policy = ModuleWrapPolicy({torch.nn.Linear})
    wrapped = FullyShardedDataParallel(network, auto_wrap_policy=policy, device_id=torch.device("cpu"))
    return train(wrapped, rank)


def of_tensor(network, rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    parallelize_module(network, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return train(network, rank, data_of=0)


def of_compile(network, rank):
    import torch.distributed._functional_collectives as functional

    @torch.compile(backend="eager")
    def mean(gradient):
        return functional.all_reduce(gradient, "sum", dist.group.WORLD) / dist.get_world_size()

    def average():
        for parameter in network.parameters():
            parameter.grad = mean(parameter.grad)

    return train(network, rank, before_update=average)


def of_inductor(network, rank):
    """DDP, compiled to C++."""
    return train(torch.compile(torch.nn.parallel.DistributedDataParallel(network)), rank)


def of_pipeline(network, rank):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    halves = [network[:2], network[2:]]
    stage = PipelineStage(halves[rank], rank, 2, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=torch.nn.functional.cross_entropy)
    optimizer = torch.optim.SGD(halves[rank].parameters(), lr=0.01)
    losses = []
    for inputs, labels in batches(0):
        late(rank)
        found = []
        if rank == 0:
            schedule.step(inputs)
        else:
            schedule.step(target=labels, losses=found)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(torch.stack(found).mean().item() if found else 0.0)
    return losses


def of_elastic(network, rank):
    """Fails once in the middle: torchelastic starts all ranks again."""
    wrapped = torch.nn.parallel.DistributedDataParallel(network)
    is_first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    steps = 0

    def fail():
        nonlocal steps
        steps += 1
        if is_first and rank == 0 and steps == STEPS // 2:
            os._exit(3)

    return train(wrapped, rank, before_update=fail)


def of_checkpoint(network, rank):
    """Saves the sharded parameters every ten steps, on another thread and in another process group."""
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.checkpoint.state_dict import get_model_state_dict
    from torch.distributed.fsdp import fully_shard

    fully_shard(network)
    group = dist.new_group(backend="gloo")
    saved = []

    with tempfile.TemporaryDirectory() as folder:
        folders = [folder]
        dist.broadcast_object_list(folders, src=0)

        def save():
            saved.append(None)
            if len(saved) % 10 == 0:
                state = {"network": get_model_state_dict(network)}
                saved[-1] = checkpoint.async_save(state, checkpoint_id=f"{folders[0]}/{len(saved)}", process_group=group)

        losses = train(network, rank, before_update=save)
        for saving in filter(None, saved):
            saving.result()
        dist.barrier()
        assert len(os.listdir(f"{folders[0]}/{len(saved)}")) > 1
        dist.barrier()
    return losses


def main():
    settings()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    shapes = {"ddp": of_ddp, "hook": of_hook, "fsdp": of_fsdp, "fsdp1": of_fsdp1, "tensor": of_tensor, "compile": of_compile, "inductor": of_inductor, "pipeline": of_pipeline,
              "elastic": of_elastic, "checkpoint": of_checkpoint}
    finish(rank, shapes[sys.argv[1]](model(), rank))


main()
