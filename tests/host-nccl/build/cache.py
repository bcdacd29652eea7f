"""The cache of the bed. Each entry is a directory, named for a hash of everything that its content depends on."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rankscope" / "host-nccl"


def digest(*parts):
    """Returns a short hash of texts and files."""
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(part.read_bytes() if isinstance(part, Path) else str(part).encode())
        hashed.update(b"\0")
    return hashed.hexdigest()[:12]


class NotBuilt(Exception):
    """An entry is missing, and HOST_NCCL_BUILD=0 forbids its build."""


@contextmanager
def fresh(entry):
    """Yields a directory that becomes the entry if the block succeeds. An interrupted build leaves no entry."""
    if os.environ.get("HOST_NCCL_BUILD") == "0":
        raise NotBuilt(entry.name)
    work = entry.with_name(f"{entry.name}.fresh")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    yield work
    shutil.rmtree(entry, ignore_errors=True)
    work.rename(entry)


def used(entry):
    """Marks an entry as used, and removes those of the same name that are unused for a week. Returns the entry."""
    os.utime(entry)
    for other in ROOT.glob(f"{entry.name.rpartition('-')[0]}-*"):
        if time.time() - other.stat().st_mtime > 7 * 24 * 3600:
            shutil.rmtree(other)
    return entry


@contextmanager
def locked():
    """Lets one process build at a time."""
    ROOT.mkdir(parents=True, exist_ok=True)
    with open(ROOT / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def compiler():
    """Returns the C++ compiler."""
    return os.environ.get("CXX", "g++")


def compiler_version():
    """Returns the compiler's name and version. Objects of two compilers are not mixed."""
    return subprocess.run([compiler(), "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]


def jobs():
    """Returns how many compilers run at once."""
    return int(os.environ.get("HOST_NCCL_JOBS", "2"))
