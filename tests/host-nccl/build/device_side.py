"""The device side of one version, and the library that links it with NCCL's own host code."""

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cache
from host_objects import compile_file, run, write

BED = Path(__file__).resolve().parents[1]
SOURCES = BED / "device"
# Sums of integers wrap around.
FLAGS = ["-O2", "-fwrapv", "-Wall", "-Wno-unused"]

# Kernels by their demangled names. The host code refers to them and does not define them.
KERNEL = re.compile(r"^(nccl(?:Dev)?Kernel_\w+|ncclSym\w*Kernel_\w+)\((.*)\)$")


def build(host, standins):
    """Compiles the device side, links libnccl.so.2, and builds the program. Returns the directory of the version."""
    objects = host.build()
    ours = [path for place in (SOURCES, BED / "programs", Path(__file__).parent) for path in sorted(place.glob("*.*"))]
    entry = cache.ROOT / f"{host.sources.version}-{cache.digest(*ours, host.directory.name, standins.name)}"
    if not entry.exists():
        with cache.fresh(entry) as out:
            link(host, standins, objects, out)
            build_programs(host, out)
            shutil.rmtree(out / "objects")
    return cache.used(entry)


def link(host, standins, objects, out):
    """Fills the directory: NCCL, the stand-ins, and the public header."""
    work = out / "objects"
    work.mkdir()
    (out / "include").mkdir()
    write(out / "include" / "nccl.h", host.sources.public_header())
    for library in standins.iterdir():
        shutil.copy(library, out / library.name, follow_symlinks=False)
    flags = host.flags() + FLAGS
    flags.remove("-w")
    # NCCL's headers are not ours to correct.
    flags = [re.sub(r"^-I", "-isystem", flag) for flag in flags]
    table = work / "kernel_table.cc"
    write(table, kernel_table(objects))
    flags_of_table = flags + [f"-I{SOURCES}", "-w"]

    def compiled(file):
        used = flags_of_table if file == table else flags
        return compile_file(file, work / f"{file.stem}.o", used)

    with ThreadPoolExecutor(cache.jobs()) as pool:
        ours = list(pool.map(compiled, [table, *sorted(SOURCES.glob("*.cc"))]))
    everything = [*objects, *ours]
    missing = left_out(everything)
    if missing:
        write(work / "left_out.s", stubs(missing))
        run([cache.compiler(), "-c", work / "left_out.s", "-o", work / "left_out.o"])
        everything.append(work / "left_out.o")
    command = [cache.compiler(), "-shared", "-Wl,-soname,libnccl.so.2", "-Wl,--no-undefined", "-Wl,-rpath,$ORIGIN"]
    libraries = [f"-L{standins}", "-lcudart", "-lcuda", "-lpthread", "-lrt", "-ldl"]
    run([*command, "-o", out / "libnccl.so.2", *everything, *libraries])
    (out / "libnccl.so").symlink_to("libnccl.so.2")


def symbols(objects, *options):
    """Returns the symbols that nm lists, without duplicates."""
    command = ["nm", "--format=posix", *options, *map(str, objects)]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return sorted({line.split()[0] for line in listed.splitlines() if line and not line.endswith(":")})


def demangled(names):
    """Returns the C++ names."""
    done = subprocess.run(["c++filt"], input="\n".join(names), check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


def kernel_table(objects):
    """Returns the source of functions with the kernels' names, and of the table that registers them."""
    kernels = [KERNEL.match(name) for name in demangled(symbols(objects, "-u"))]
    kernels = [(match[1], match[2]) for match in kernels if match]
    lines = ['#include "kernel_table.h"', ""]
    lines += [f"void {name}({arguments}) {{}}" for name, arguments in kernels]
    lines += ["", "static const HostKernel kKernels[] = {"]
    lines += [f'    host_nccl::described({name}, "{name}"),' for name, _ in kernels]
    lines += ["};", "", "static const bool kIsRegistered = host_nccl::registered(kKernels);", ""]
    return "\n".join(lines)


def left_out(objects):
    """Returns functions of NCCL that no object defines. Their files need the library of an InfiniBand NIC."""
    undefined = set(symbols(objects, "-u")) - set(symbols(objects, "--defined-only"))
    internal = re.compile(r"^_Z\w*(nccl|Gdaki|gdaki|doca)")
    return sorted(name for name in undefined if internal.search(name))


def stubs(names):
    """Returns assembly of functions that return ncclInternalError."""
    lines = [".text"]
    for name in names:
        lines += [f".globl {name}", f".hidden {name}", f"{name}: mov $3, %eax", " ret"]
    lines.append('.section .note.GNU-stack,"",@progbits')
    return "\n".join(lines) + "\n"


def build_programs(host, out):
    """Builds the program against the public header of the version."""
    flags = ["-std=c++17", "-O1", "-g1", "-Wall", f"-I{out / 'include'}", "-isystem", host.headers]
    sources = sorted((BED / "programs").glob("*.cc"))

    def compiled(file):
        return compile_file(file, out / "objects" / f"program_{file.stem}.o", flags)

    with ThreadPoolExecutor(cache.jobs()) as pool:
        objects = list(pool.map(compiled, sources))
    libraries = [f"-L{out}", "-lnccl", "-lcudart", "-lcuda", "-lpthread", f"-Wl,-rpath-link,{out}"]
    # The program finds the libraries beside it, wherever it is started.
    run([cache.compiler(), "-o", out / "host_nccl_all", *objects, *libraries, "-Wl,-rpath,$ORIGIN"])
