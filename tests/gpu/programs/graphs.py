"""Captures an all-reduce into a CUDA graph and replays it: the calls are templates, and the replays run."""
import torch
import torch.distributed as dist

torch.cuda.set_device(0)
dist.init_process_group("nccl")
data = torch.ones(4096, device="cuda")
weight = torch.randn(64, 64, device="cuda")
for _ in range(3):
    # The first product creates cuBLAS's handle, which a capture does not allow.
    product = weight @ weight
    dist.all_reduce(data)
torch.cuda.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    product = weight @ weight
    dist.all_reduce(data)
for _ in range(20):
    graph.replay()
torch.cuda.synchronize()
print("replayed 20 times", flush=True)
dist.destroy_process_group()
