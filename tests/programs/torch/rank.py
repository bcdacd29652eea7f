"""How every PyTorch program here becomes a rank (env:// rendezvous), and how it tells the truth:
one JSON line per finished operation in $TRUTH_DIR/rank<R>.jsonl, flushed, so that a killed program
has told all that it finished. Fields as in ../truth.h: count and element_size are the call's own."""

import datetime
import json
import os
import sys
import time

import torch
import torch.distributed as dist

RANK = int(os.environ["RANK"])
WORLD = int(os.environ["WORLD_SIZE"])

_directory = os.environ.get("TRUTH_DIR")
_file = open(f"{_directory}/rank{RANK}.jsonl", "a") if _directory else sys.stdout


def start(timeout=60):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=timeout))


def settle():
    """Seen with PyTorch 2.15, rarely: Gloo's worker thread still holds a tensor when Python ends, wants
    Python's lock to drop it, and the process aborts. That is not what these programs test."""
    time.sleep(0.2)


def finish():
    dist.destroy_process_group()
    settle()


def truth(op, tensor=None, group="world", root=-1, peer=-1, count=None, **more):
    size = tensor.element_size() if tensor is not None else 0
    if count is None:
        count = tensor.numel() if tensor is not None else 0
    line = {"communicator": group, "op": op, "element_size": size, "count": count, "bytes": count * size,
            "root": root, "peer": peer, **more}
    print(json.dumps(line), file=_file, flush=True)
