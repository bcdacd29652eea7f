"""The stand-in driver, runtime and NVML. They are the same for all versions of NCCL."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cache
from host_objects import compile_file, run, write

SOURCES = Path(__file__).resolve().parents[1] / "stand-ins"
FLAGS = "-std=c++17 -O2 -g1 -fPIC -fvisibility=hidden -Wall -Wextra -Wno-missing-field-initializers".split()
# Directory of the sources, name of the library, and what it needs.
LIBRARIES = [
    ("driver", "libcuda.so.1", []),
    ("runtime", "libcudart.so.12", ["-lcuda"]),
    ("nvml", "libnvidia-ml.so.1", []),
]


def build(headers):
    """Returns the directory with the libraries."""
    files = sorted(path for path in SOURCES.rglob("*") if path.is_file())
    key = cache.digest(*files, " ".join(FLAGS), headers.name, cache.compiler_version())
    entry = cache.ROOT / f"stand-ins-{key}"
    if not entry.exists():
        with cache.fresh(entry) as out:
            for directory, name, needed in LIBRARIES:
                link([headers], sources(directory), out, name, [f"-L{out}", *needed])
    return cache.used(entry)


def sources(directory):
    """Returns the sources of a library."""
    return sorted((SOURCES / directory).glob("*.cc"))


def link(headers, files, out, name, needed):
    """Builds one library, and the name without version that the linker looks for."""
    flags = FLAGS + [flag for directory in headers for flag in ("-isystem", directory)]
    with ThreadPoolExecutor(cache.jobs()) as pool:
        objects = list(pool.map(lambda file: compile_file(file, out / f"{file.stem}.o", flags), files))
    command = [cache.compiler(), "-shared", f"-Wl,-soname,{name}", "-Wl,--no-undefined", "-Wl,-rpath,$ORIGIN"]
    if name.startswith("libcudart"):
        # As in CUDA, so that one process can use two versions of the runtime.
        versions = out / "versions"
        write(versions, f"{name} {{ global: *; }};\n")
        command.append(f"-Wl,--version-script={versions}")
    run([*command, "-o", out / name, *objects, *needed, "-lpthread", "-ldl"])
    (out / f"{name.split('.so')[0]}.so").symlink_to(name)
    for leftover in [*objects, *out.glob("versions")]:
        leftover.unlink()
