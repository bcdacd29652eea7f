"""Start-up and reporting of the PyTorch programs (env:// rendezvous).

A program reports one JSON line per finished operation in $TRUTH_DIR/rank<R>.jsonl. Lines are flushed, so that a killed
program has reported everything that it finished. Fields are those of ../truth.h: count and element_size are the call's
own."""

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


def start(timeout=60, backend="gloo"):
    torch.set_num_threads(1)
    dist.init_process_group(backend, timeout=datetime.timedelta(seconds=timeout))


def settle():
    """Rarely seen with PyTorch 2.15: Gloo's worker thread still holds a tensor when Python ends. It needs Python's lock
    to release the tensor, and the process aborts. These programs do not test that."""
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
