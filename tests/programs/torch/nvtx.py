"""Makes ranges of torch.cuda.nvtx around communication. No GPU is needed."""

import torch
import torch.distributed as dist

import rank
from rank import truth

rank.start()
# The first communication starts the recorder.
dist.barrier()
for _ in range(20):
    torch.cuda.nvtx.range_push("training step")
    torch.cuda.nvtx.range_push("forward")
    tensor = torch.randn(50, 50) @ torch.randn(50, 50)
    torch.cuda.nvtx.range_pop()
    dist.all_reduce(tensor)
    truth("allreduce", tensor)
    torch.cuda.nvtx.range_pop()
rank.finish()
