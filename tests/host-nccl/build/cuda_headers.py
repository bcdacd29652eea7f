"""CUDA's headers, from NVIDIA's wheels. No other part of the wheels is used."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import cache

# crt/host_defines.h and its neighbours are in the wheel of the compiler, nv/target in that of CCCL.
WHEELS = {
    "nvidia-cuda-runtime-cu12": "12.9.79",
    "nvidia-cuda-nvcc-cu12": "12.9.86",
    "nvidia-cuda-cccl-cu12": "12.9.27",
    "nvidia-nvml-dev-cu12": "12.9.79",
}


class Unavailable(Exception):
    """A wheel cannot be fetched."""


def directory():
    """Returns the directory of the headers. Fetches them once."""
    entry = cache.ROOT / f"cuda-headers-{cache.digest(sorted(WHEELS.items()))}"
    if entry.exists():
        return entry
    with tempfile.TemporaryDirectory() as work, cache.fresh(entry) as out:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary=:all:", "--dest", work]
        for tag in ("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux_2_17_x86_64"):
            command += ["--platform", tag]
        command += [f"{name}=={version}" for name, version in WHEELS.items()]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            raise Unavailable(f"the wheels with CUDA's headers cannot be fetched: {done.stdout.strip()}")
        for wheel in Path(work).glob("*.whl"):
            unpack(wheel, out)
    return entry


def unpack(wheel, out):
    """Unpacks the headers of a wheel, from nvidia/PART/include."""
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            _, found, inside = name.partition("/include/")
            if not found or not inside or name.endswith("/"):
                continue
            path = out / inside
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(archive.read(name))
