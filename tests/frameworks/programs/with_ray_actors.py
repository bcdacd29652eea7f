"""Plain Ray actors that form a process group themselves. RAY_ADDRESS names a running cluster; otherwise this script starts one."""

import os
import pathlib
import socket
import sys
import time

import ray

HERE = str(pathlib.Path(__file__).resolve().parent)


@ray.remote(num_cpus=1)
class Worker:
    def train(self, rank, port):
        sys.path.insert(0, HERE)
        import torch
        import torch.distributed as dist
        from common import model, report, settings, train

        settings()
        dist.init_process_group("gloo", f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
        network = torch.nn.parallel.DistributedDataParallel(model())
        report(rank, train(network, rank))
        dist.destroy_process_group()


def main():
    if "RAY_ADDRESS" in os.environ:
        ray.init(log_to_driver=False)
    else:
        ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    workers = [Worker.remote() for _ in range(2)]
    ray.get([worker.train.remote(rank, port) for rank, worker in enumerate(workers)])
    # Workers report their tasks each second.
    time.sleep(3)
    ray.timeline(filename=os.path.join(os.environ["TRUTH_DIR"], "timeline.json"))
    ray.shutdown()


main()
