"""Uses memory, processors and the network at a steady rate, and reports how much.

Arguments: seconds, and MiB per second that each rank keeps. Each line of $TRUTH_DIR/steady<R>.jsonl has the totals so far:
processor time of the main thread and of the process, resident memory, and bytes that the loopback interface received."""

import json
import os
import sys
import time

import torch
import torch.distributed as dist

import rank
from rank import RANK

SECONDS = float(sys.argv[1])
KEPT_BYTES_PER_S = int(sys.argv[2]) << 20
TURN_S = 0.1
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def received_bytes():
    with open("/proc/net/dev") as interfaces:
        for line in interfaces:
            name, _, numbers = line.partition(":")
            if name.strip() == "lo":
                return int(numbers.split()[0])
    return 0


def resident_bytes():
    with open("/proc/self/statm") as pages:
        return int(pages.read().split()[1]) * PAGE_BYTES


rank.start()
tensor = torch.ones(1 << 18)
dist.all_reduce(tensor)
kept = []
report = open(f"{os.environ['TRUTH_DIR']}/steady{RANK}.jsonl", "w")
start = time.monotonic()
turn = 0
while time.monotonic() < start + SECONDS:
    turn += 1
    busy_until = time.thread_time() + 0.3 * TURN_S
    while time.thread_time() < busy_until:
        pass
    kept.append(b"\x01" * int(KEPT_BYTES_PER_S * TURN_S))
    dist.all_reduce(tensor)
    line = {"wall_s": time.monotonic(), "main_s": time.thread_time(), "process_s": time.process_time(),
            "resident_bytes": resident_bytes(), "received_bytes": received_bytes()}
    print(json.dumps(line), file=report, flush=True)
    time.sleep(max(0.0, start + turn * TURN_S - time.monotonic()))
rank.finish()
