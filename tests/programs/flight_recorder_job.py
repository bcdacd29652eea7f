"""A job on Gloo that hangs: its last rank never calls the last all-reduce. Each rank writes its Flight Recorder's dump.

Usage: flight_recorder_job.py DIRECTORY, under torchrun. It writes rank_N (a pickle) and json/rank_N.json."""
import os
import sys
import threading
import time

os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "200")
import torch
import torch.distributed as dist

folder = sys.argv[1]
dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
pair = dist.new_group([0, 1], group_desc="tensor")
tensor = torch.ones(1000)
for _ in range(2):
    dist.all_reduce(tensor)
if rank < 2:
    dist.all_gather([torch.ones(10) for _ in range(2)], torch.ones(10), group=pair)
dist.broadcast(tensor, 0)


def hang():
    try:
        dist.all_reduce(tensor)
    except RuntimeError:
        # The other ranks leave while this one waits.
        pass


if rank != size - 1:
    threading.Thread(target=hang, daemon=True).start()
c10d = torch._C._distributed_c10d


def has_called():
    return rank == size - 1 or b"hang" in c10d._dump_fr_trace()


deadline = time.monotonic() + 60
while not has_called() and time.monotonic() < deadline:
    time.sleep(0.01)
with open(f"{folder}/rank_{rank}", "wb") as file:
    file.write(c10d._dump_fr_trace())
os.makedirs(f"{folder}/json", exist_ok=True)
text = c10d._dump_fr_trace_json()
with open(f"{folder}/json/rank_{rank}.json", "wb") as file:
    file.write(text if isinstance(text, bytes) else text.encode())
# Ranks leave together, so that no broken connection ends the hang first.
deadline = time.monotonic() + 60
while len([name for name in os.listdir(f"{folder}/json")]) < size and time.monotonic() < deadline:
    time.sleep(0.01)
os._exit(0)
