#!/usr/bin/env python3
"""How long does a killed rank stay on a machine whose processors are all busy, with and without rankscope?

Starts a rank that communicates and holds memory, keeps every processor busy with BUSY processes, kills the rank with SIGKILL,
and waits for its end. Runs of both kinds alternate. Prints a table and the ratio of the medians.

    kill_delay.py [--pairs N] [--megabytes N] [--busy N] [--library PATH]
"""

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Small pages, as of memory that is pinned or in use for long: each is freed on its own.
RANK = """
import mmap, sys
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
memory = mmap.mmap(-1, int(sys.argv[1]) << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for offset in range(0, len(memory), 4096):
    memory[offset] = 1
print("ready", flush=True)
while True:
    dist.all_reduce(torch.ones(64))
"""


def delay_s(options, library):
    """Returns the seconds from SIGKILL to the end of the process."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "RANKSCOPE_DIR")}
        if library:
            environment.update(LD_PRELOAD=library, RANKSCOPE_DIR=os.path.join(folder, "run"), RANKSCOPE_LIVE_DIR=folder)
        rank = subprocess.Popen([sys.executable, "-c", RANK, str(options.megabytes)], env=environment, stdout=subprocess.PIPE)
        busy = []
        try:
            if rank.stdout.readline() != b"ready\n":
                sys.exit("the rank did not start")
            if library and not os.listdir(os.path.join(folder, "run")):
                sys.exit(f"{library} recorded nothing")
            spin = [sys.executable, "-c", "while True: pass"]
            busy = [subprocess.Popen(spin) for _ in range(options.busy * os.cpu_count())]
            time.sleep(2)
            at = time.monotonic()
            rank.send_signal(signal.SIGKILL)
            rank.wait()
            return time.monotonic() - at
        finally:
            for process in [rank, *busy]:
                process.kill()
                process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--busy", type=int, default=2, help="busy processes per processor")
    parser.add_argument("--library", default=os.path.join(ROOT, "target/release/librankscope.so"))
    options = parser.parse_args()
    delays = {"alone": [], "recorded": []}
    for pair in range(options.pairs):
        for name in sorted(delays, reverse=pair % 2 == 1):
            delays[name].append(delay_s(options, options.library if name == "recorded" else None))
    for name, values in delays.items():
        print(f"{name:9} median {statistics.median(values):.2f} s, largest {max(values):.2f} s, of {len(values)}")
    print(f"ratio of the medians: {statistics.median(delays['recorded']) / statistics.median(delays['alone']):.2f}")


if __name__ == "__main__":
    main()
