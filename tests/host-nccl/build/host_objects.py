"""NCCL's host code, compiled with the host compiler alone. These objects do not depend on the bed's own code."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cache

FLAGS = "-std=c++17 -O1 -g1 -fPIC -fvisibility=hidden -w".split()
FLAGS += "-DCUDA_MAJOR=12 -DCUDA_MINOR=9 -DPROFAPI -DNCCL_OS_LINUX".split()


class Failed(Exception):
    """A compiler reports errors."""


class HostObjects:
    """The compiled host code of one version."""

    def __init__(self, sources, headers):
        self.sources = sources
        self.headers = headers
        key = cache.digest(sources.key, " ".join(FLAGS), headers.name, cache.compiler_version())
        self.directory = cache.ROOT / f"objects-{sources.version}-{key}"
        self.include = self.directory / "include"

    def flags(self):
        """Returns the flags for code that includes NCCL's internal headers."""
        source = self.sources.directory
        inside = ["", "include", "include/plugin", "device", "graph", "ras", "gin"]
        inside.append("transport/gdaki/doca-gpunetio/include")
        directories = [self.include, *(source / name for name in inside), self.headers]
        return FLAGS + [f"-I{path}" for path in directories]

    def build(self):
        """Compiles what is missing and returns the objects. Each object is complete or absent."""
        self.include.mkdir(parents=True, exist_ok=True)
        write(self.include / "nccl.h", self.sources.public_header())
        git = '#define NCCL_GIT_BRANCH "none"\n#define NCCL_GIT_COMMIT_HASH "none"\n'
        write(self.include / "nccl_git_version.h", git)
        cache.used(self.directory)
        files = self.sources.host_files() + self.generated()
        with ThreadPoolExecutor(cache.jobs()) as pool:
            return list(pool.map(self.compile, files))

    def generated(self):
        """Runs NCCL's generators. They write the tables by which the host finds its kernels."""
        tables = []
        for place in ("device", "device/symmetric"):
            script = self.sources.directory / place / "generate.py"
            if not script.exists():
                continue
            out = self.directory / place.replace("/", "-")
            if not out.exists():
                with cache.fresh(out) as work:
                    # The second argument selects functions. The one of symmetric kernels takes none.
                    arguments = [str(work)] + ([""] if place == "device" else [])
                    done = subprocess.run(
                        [sys.executable, script.name, *arguments], cwd=script.parent, capture_output=True, text=True
                    )
                    if done.returncode != 0:
                        raise Failed(f"{script}: {done.stdout}{done.stderr}")
            tables += [path for path in sorted(out.glob("*.cc")) if path.name != "device_table.cc"]
        return tables

    def compile(self, file):
        """Compiles one file, if its object is absent."""
        inside = self.sources.directory if self.sources.directory in file.parents else self.directory
        name = str(file.relative_to(inside)).replace("/", "_")
        return compile_file(file, self.directory / f"{name}.o", self.flags())


def compile_file(file, out, flags):
    """Compiles one file to an object that does not exist yet."""
    if not out.exists():
        work = out.with_suffix(f".{os.getpid()}.part")
        run(["nice", "-n", "5", cache.compiler(), *flags, "-c", file, "-o", work])
        work.rename(out)
    return out


def run(command):
    """Runs a compiler. Its messages are the error's text."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}\n{done.stdout}")
    return done.stdout


def write(path, text):
    """Writes a file if its text differs."""
    path = Path(path)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
