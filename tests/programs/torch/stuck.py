"""Trains in one of four shapes until a fault hangs it, or while something slow but healthy happens.

Arguments: SHAPE FAULT RANK STEP [STEPS]. SHAPE is ddp, sharded, pipeline or groups. At STEP, rank RANK injects FAULT.
A launcher starts the ranks; without one, STUCK_RANKS and MASTER_PORT start them by fork.
Before the fault, it writes what it is going to do to $TRUTH_DIR/fault.json: the time, and what a tool can know. The job runs
for STEPS steps (default: for ever)."""

import ctypes
import json
import os
import signal
import socket
import sys
import time

import torch
import torch.distributed as dist


def move_to_host(folder):
    """Gives this process a host of its own: a name and a boot id. It needs root."""
    libc = ctypes.CDLL(None, use_errno=True)
    clone_newns, clone_newuts, ms_bind, ms_rec, ms_private = 0x20000, 0x4000000, 4096, 16384, 1 << 18
    boot_id = os.path.join(folder, "other-boot-id").encode()
    steps = [lambda: libc.unshare(clone_newns | clone_newuts),
             lambda: libc.mount(None, b"/", None, ms_rec | ms_private, None),
             lambda: libc.mount(boot_id, b"/proc/sys/kernel/random/boot_id", None, ms_bind, None)]
    for step in steps:
        if step() != 0:
            raise OSError(ctypes.get_errno(), "cannot imitate a second host")
    socket.sethostname("other-host")


def launch(ranks):
    """Starts the ranks by fork: PyTorch is imported once. A rank that ends does not end the others.

    With STUCK_OTHER_HOST, the second half of the ranks is on another host. With STUCK_MEMORY_GROUP, the culprit is in this
    control group."""
    children = []
    for number in range(ranks):
        child = os.fork()
        if child == 0:
            if "STUCK_OTHER_HOST" in os.environ and number >= ranks // 2:
                move_to_host(os.environ["STUCK_OTHER_HOST"])
            if "STUCK_MEMORY_GROUP" in os.environ and number == int(sys.argv[3]):
                with open(os.path.join(os.environ["STUCK_MEMORY_GROUP"], "cgroup.procs"), "w") as file:
                    file.write(str(os.getpid()))
            os.environ.update(RANK=str(number), LOCAL_RANK=str(number), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1")
            return
        children.append(child)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    sys.exit(next((abs(status) for status in statuses if status), 0))


if "RANK" not in os.environ:
    launch(int(os.environ["STUCK_RANKS"]))

import rank
from rank import RANK, WORLD

SHAPE, FAULT = sys.argv[1], sys.argv[2]
CULPRIT, AT_STEP = int(sys.argv[3]), int(sys.argv[4])
STEPS = int(sys.argv[5]) if sys.argv[5:] and sys.argv[5] else 1 << 30
SLOW_S = float(os.environ.get("STUCK_SLOW_S", "6"))
STEP_S = 0.01


def truth(kinds, operation=None, group=None, number=None, culprits=None):
    """What a tool can know: the kinds that it may report, and the operation that the others wait in."""
    path = os.path.join(os.environ.get("TRUTH_DIR", "."), "fault.json")
    culprits = [CULPRIT] if culprits is None else culprits
    with open(path + ".part", "w") as file:
        json.dump({"kinds": kinds, "operation": operation, "group": group, "number": number, "culprits": culprits,
                   "pid": os.getpid(), "at_unix_ns": time.time_ns()}, file)
    os.rename(path + ".part", path)


class Group:
    """A process group that counts its collectives, as c10d does."""

    def __init__(self, ranks):
        self.ranks = ranks
        self.group = dist.new_group(ranks) if ranks is not None else None
        self.number = 0

    def name(self):
        return list(range(WORLD)) if self.ranks is None else self.ranks

    def all_reduce(self, tensor):
        self.number += 1
        dist.all_reduce(tensor, group=self.group)

    def broadcast(self, tensor, root):
        self.number += 1
        dist.broadcast(tensor, root, group=self.group)

    def barrier(self):
        self.number += 1
        dist.barrier(group=self.group)


def busy(seconds):
    end = time.monotonic() + seconds
    value = torch.ones(64, 64)
    while time.monotonic() < end:
        value = (value @ value).clamp(-1, 1)


class SlowData(torch.utils.data.Dataset):
    """The worker process of a data loader that never returns its second batch."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index > 0:
            # A worker must not outlive a job that is killed.
            trainer = os.getppid()
            while os.getppid() == trainer:
                time.sleep(1)
        return torch.zeros(1)


def outside(kinds, group, operation):
    truth(kinds, operation, group.name(), group.number)


def inject(group, other, operation):
    """Injects the fault into the culprit. The next operation is `operation` on `group`. Returns the operations to leave out."""
    x, y = torch.ones(256), torch.ones(64)
    if FAULT == "sleep":
        outside(["user-code"], group, operation)
        time.sleep(10000)
    elif FAULT == "loop":
        outside(["user-code"], group, operation)
        busy(10000)
    elif FAULT == "loader":
        batches = iter(torch.utils.data.DataLoader(SlowData(), num_workers=1))
        # To start the worker is work.
        next(batches)
        outside(["user-code"], group, operation)
        next(batches)
    elif FAULT == "stop":
        outside(["stopped"], group, operation)
        os.kill(os.getpid(), signal.SIGSTOP)
    elif FAULT == "operation":
        truth(["mismatch"], None, group.name(), group.number)
        group.barrier() if operation != "barrier" else group.all_reduce(x)
    elif FAULT == "size":
        truth(["mismatch"], None, group.name(), group.number)
        group.all_reduce(torch.ones(1024))
        return True
    elif FAULT == "order":
        truth(["mismatch"], None, group.name(), group.number)
        group.broadcast(y, group.name()[0])
        group.all_reduce(x)
        return True
    elif FAULT == "crossed":
        truth(["crossed-order"], None, None, None)
        other.all_reduce(y)
        group.all_reduce(x)
        return True
    elif FAULT == "skip":
        # The next call of the culprit is on the other group, where its peers are not yet.
        truth(["crossed-order", "missing-caller"], None, None, None)
        other.all_reduce(y)
        return True
    elif FAULT == "kill":
        outside(["process-gone"], group, operation)
        os.kill(os.getpid(), signal.SIGKILL)
    elif FAULT == "memory":
        outside(["process-gone"], group, operation)
        hold = []
        while True:
            hold.append(b"x" * (16 << 20))
    elif FAULT == "evaluation":
        outside([], group, operation)
        busy(SLOW_S)
    elif FAULT == "checkpoint":
        outside([], group, operation)
        end = time.monotonic() + SLOW_S
        state = {"weights": torch.ones(1 << 20)}
        path = os.path.join(os.environ.get("TRUTH_DIR", "."), "checkpoint.pt")
        while time.monotonic() < end:
            torch.save(state, path)
    elif FAULT == "breakpoint":
        outside([], group, operation)
        sys.stdin.readline()
    elif FAULT == "compile":
        outside([], group, operation)
        import subprocess
        subprocess.run([sys.executable, "-c", f"import time\ne=time.monotonic()+{SLOW_S}\nwhile time.monotonic()<e: pass"])
    elif FAULT == "machine":
        # The test stops all processes for a while.
        outside([], group, operation)
    elif FAULT not in ("none", "root"):
        raise SystemExit(f"unknown fault {FAULT}")
    return False


def is_now(step):
    return step == AT_STEP and RANK == CULPRIT


def with_root(group, step):
    """Broadcasts, with another root on the culprit if that is the fault."""
    if FAULT != "root":
        return
    root = group.name()[0]
    if is_now(step):
        truth(["mismatch"], None, group.name(), group.number)
        root = group.name()[-1]
    group.broadcast(torch.ones(64), root)


def ddp():
    world = Group(None)
    half = Group(list(range(WORLD // 2))) if WORLD > 2 else None
    rest = Group(list(range(WORLD // 2, WORLD))) if WORLD > 2 else None
    mine = (half if RANK < WORLD // 2 else rest) if half else world
    model = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(STEPS):
        time.sleep(STEP_S)
        optimizer.zero_grad()
        model(torch.ones(8, 64)).sum().backward()
        optimizer.step()
        # DistributedDataParallel numbers its own collectives too.
        world.number = 0
        with_root(world, step)
        world.number = None
        if is_now(step):
            world.number = 0
            if inject(world, mine, "all-reduce"):
                continue
        dist.all_reduce(torch.ones(256))
        dist.all_reduce(torch.ones(64), group=mine.group)


def sharded():
    world = Group(None)
    others = Group(list(range(0, WORLD, 2)))
    others = others if RANK % 2 == 0 else Group(list(range(1, WORLD, 2)))
    if RANK % 2 == 0:
        dist.new_group(list(range(1, WORLD, 2)))
    shards = [torch.ones(256) for _ in range(WORLD)]
    for step in range(STEPS):
        time.sleep(STEP_S)
        for _ in range(2):
            world.number += 1
            dist.all_gather(shards, torch.ones(256))
        with_root(world, step)
        if is_now(step) and inject(world, others, "all-reduce"):
            continue
        world.all_reduce(torch.ones(256))
        others.all_reduce(torch.ones(64))


def pipeline():
    world = Group(None)
    pairs = [Group([first, first + 1]) for first in range(0, WORLD - 1, 2)]
    mine = next((pair for pair in pairs if RANK in pair.ranks), world)
    activation = torch.ones(256)
    for step in range(STEPS):
        time.sleep(STEP_S)
        if RANK > 0:
            dist.recv(activation, RANK - 1)
        if RANK + 1 < WORLD:
            dist.send(activation, RANK + 1)
        with_root(world, step)
        if is_now(step) and inject(world, mine, "all-reduce"):
            continue
        world.all_reduce(torch.ones(256))
        mine.all_reduce(torch.ones(64))


def groups():
    tensor = [Group([first, first + 1]) for first in range(0, WORLD - 1, 2)]
    data = [Group(list(range(first, WORLD, 2))) for first in range(2)]
    of_tensor = next(group for group in tensor if RANK in group.ranks)
    of_data = data[RANK % 2]
    for step in range(STEPS):
        time.sleep(STEP_S)
        of_tensor.all_reduce(torch.ones(256))
        if is_now(step) and inject(of_tensor, of_data, "all-reduce"):
            continue
        of_tensor.all_reduce(torch.ones(256))
        of_data.all_reduce(torch.ones(64))


rank.start(timeout=600)
{"ddp": ddp, "sharded": sharded, "pipeline": pipeline, "groups": groups}[SHAPE]()
rank.finish()
