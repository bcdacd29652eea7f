#!/usr/bin/env python3
"""Packs an optional program into a wheel of its own, which `pip install rankscope[sql]` or `rankscope[cluster]` adds.

    packaging/companion_wheel.py --program FILE [--out DIRECTORY]

The file name says which program it is: rankscope-sql or rankscope-cluster.
"""

import argparse
import pathlib

from artefacts import ROOT, glibc, machine, stripped, version
from wheel import Wheel

# Summary, and the commands of rankscope that start the program.
PROGRAMS = {
    "rankscope-sql": ("Query rankscope sessions with SQL", "`rankscope sql` starts"),
    "rankscope-cluster": (
        "Merge rankscope recordings on several machines",
        "`rankscope scheduler`, `rankscope executor` and `rankscope merge --cluster` start",
    ),
}


def metadata(program, number):
    summary, started_by = PROGRAMS[program]
    return "\n".join([
        "Metadata-Version: 2.4",
        f"Name: {program}",
        f"Version: {number}",
        f"Summary: {summary}",
        "License-Expression: Apache-2.0 OR MIT",
        "License-File: LICENSE-APACHE",
        "License-File: LICENSE-MIT",
        "Requires-Python: >=3.8",
        "Project-URL: Source, https://github.com/rankscope/rankscope",
        "Description-Content-Type: text/markdown",
        "",
        f"The program `{program}`, which {started_by} if the package `rankscope` is installed.",
        "",
    ])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    program = arguments.program.name
    if program not in PROGRAMS:
        parser.error(f"{program}: expected a file named {' or '.join(PROGRAMS)}")
    number, oldest = version(), glibc([arguments.program])
    tag = f"py3-none-manylinux_{oldest[0]}_{oldest[1]}_{machine([arguments.program])[0]}"
    wheel = Wheel(f"{program.replace('-', '_')}-{number}", tag)
    wheel.add(f"{wheel.data}/scripts/{program}", stripped(arguments.program), is_program=True)
    wheel.finish(metadata(program, number), arguments.out)


if __name__ == "__main__":
    main()
