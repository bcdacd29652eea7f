"""Keeps the GPU busy with matrix products and all-reduces for SECONDS: python load.py SECONDS. The user path: it is
started by `rankscope run`, which also samples the GPU. The last line reports what NVML shows at the end."""
import os
import subprocess
import sys
import time

import torch
import torch.distributed as dist

os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
os.environ.setdefault("MASTER_PORT", "29511")
torch.cuda.set_device(0)
dist.init_process_group("nccl", rank=0, world_size=1)
left, right = (torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16) for _ in range(2))
until, rounds = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < until:
    for _ in range(50):
        product = left @ right
    dist.all_reduce(product)
    torch.cuda.synchronize()
    rounds += 1
fields = "pci.bus_id,clocks.sm,clocks.max.sm,power.draw,utilization.gpu,memory.used,clocks_throttle_reasons.active"
shown = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv"], capture_output=True, text=True)
print(rounds, "rounds\n", shown.stdout, shown.stderr, flush=True)
dist.destroy_process_group()
