"""A PyTorch for CUDA on NCCL and the stand-ins: a tree of links to an installed wheel, with other libraries in it.

The wheel's libraries find each other by their place. So its CUDA runtime and its NCCL are absent from the tree, and the
bed's are in their places. No file of the wheel changes, and its CUDA runtime does not run."""

import shutil
import subprocess
from pathlib import Path

import cache
import stand_ins
from device_side import symbols
from host_objects import write


class Unsuitable(Exception):
    """This PyTorch cannot run on this NCCL."""


def build(python, nccl, headers):
    """Returns a program that starts this Python with the tree. `nccl` is the directory of a version of NCCL."""
    code = "import sysconfig; print(sysconfig.get_path('purelib'))"
    wheel = Path(subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()).resolve()
    runtime = next(iter(sorted(wheel.glob("nvidia/*/lib/libcudart.so.*"))), None)
    library = next(iter(sorted(wheel.glob("nvidia/*/lib/libnccl.so.2"))), None)
    if runtime is None or library is None or not (wheel / "torch/lib/libtorch_cuda.so").exists():
        raise Unsuitable(f"the PyTorch of {python} has no CUDA, or not as packages of NVIDIA")
    version = (wheel / "torch/version.py").read_text()
    ours = [Path(__file__), *stand_ins.sources("runtime")]
    entry = cache.ROOT / f"torch-{cache.digest(*ours, python, str(wheel), version, nccl.name, headers.name)}"
    if not entry.exists():
        torch = [path for path in sorted((wheel / "torch/lib").glob("*.so")) if path.is_file()]
        needed = symbols(torch, "-D", "--undefined-only")
        missing = {name for name in needed if name.startswith("nccl")} - set(symbols([nccl / library.name], "-D"))
        if missing:
            raise Unsuitable(f"the PyTorch of {python} needs functions that {nccl.name} lacks: {sorted(missing)}")
        with cache.fresh(entry) as out:
            site = out / "site"
            site.mkdir()
            # The libraries of torch/lib must be in a real directory, because they look for others beside it.
            apart = [runtime, library, wheel / "torch/lib" / library.name]
            for package in ("torch", "nvidia"):
                mirror(wheel / package, site / package, apart)
            place = site / library.parent.relative_to(wheel)
            for file in nccl.glob("*.so.*"):
                shutil.copy(file, place)
            includes = [runtime.parents[1] / "include", headers]
            link_runtime(runtime.name, needed, site / runtime.parent.relative_to(wheel), includes, place)
            start(out / "python", python, entry / "site", entry / place.relative_to(out))
    return cache.used(entry) / "python"


def mirror(source, out, apart):
    """Makes a directory of links to everything in another, except for these paths. The directories above them are real."""
    out.mkdir()
    for path in source.iterdir():
        if any(path in other.parents for other in apart):
            mirror(path, out / path.name, apart)
        elif path not in apart:
            (out / path.name).symlink_to(path)


def link_runtime(name, needed, out, includes, place):
    """Builds the stand-in runtime of the wheel's version of CUDA. What only PyTorch needs is not supported."""
    lines = [f'#include "{stand_ins.SOURCES / header}"' for header in ("exported.h", "driver/log.h")]
    # Weak, so that a function of the stand-ins replaces it.
    lines.append("#define NOT_SUPPORTED EXPORTED __attribute__((weak)) int")
    for function in sorted({symbol.partition("@")[0] for symbol in needed if symbol.endswith(f"@{name}")}):
        lines.append(f'NOT_SUPPORTED {function}() {{ return host_nccl::logOnce("{function}"), 801; }}')
    others = out / "not_supported.cc"
    write(others, "\n".join([*lines, ""]))
    stand_ins.link(includes, [*stand_ins.sources("runtime"), others], out, name, [place / "libcuda.so.1"])
    others.unlink()


def start(script, python, site, libraries):
    """Writes the program."""
    lines = ["#!/bin/sh", f"export PYTHONPATH='{site}'${{PYTHONPATH:+:$PYTHONPATH}}"]
    lines.append(f"export LD_LIBRARY_PATH='{libraries}'${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}")
    write(script, "\n".join([*lines, f"exec '{python}' \"$@\"", ""]))
    script.chmod(0o755)
