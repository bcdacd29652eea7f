#!/usr/bin/env python3
"""Packs the query engine into a wheel of its own, which `pip install rankscope[sql]` adds beside the program.

    packaging/sql_wheel.py --program FILE [--out DIRECTORY]
"""

import argparse
import pathlib
import sys

from artefacts import LICENCES, ROOT, glibc, machine, stripped, version
from wheel import Wheel

SUMMARY = "Query rankscope sessions with SQL"


def metadata(number):
    return "\n".join([
        "Metadata-Version: 2.4",
        "Name: rankscope-sql",
        f"Version: {number}",
        f"Summary: {SUMMARY}",
        "License-Expression: Apache-2.0 OR MIT",
        "License-File: LICENSE-APACHE",
        "License-File: LICENSE-MIT",
        "Requires-Python: >=3.8",
        "Project-URL: Source, https://github.com/rankscope/rankscope",
        "Description-Content-Type: text/markdown",
        "",
        "The program `rankscope-sql`, which `rankscope sql` of the package `rankscope` starts.",
        "",
    ])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist")
    arguments = parser.parse_args()
    number, oldest = version(), glibc([arguments.program])
    tag = f"py3-none-manylinux_{oldest[0]}_{oldest[1]}_{machine([arguments.program])[0]}"
    wheel = Wheel(f"rankscope_sql-{number}", tag)
    wheel.add(f"{wheel.data}/scripts/rankscope-sql", stripped(arguments.program), is_program=True)
    for name in LICENCES:
        wheel.add(f"{wheel.info}/licenses/{name}", (ROOT / name).read_bytes())
    wheel.add(f"{wheel.info}/METADATA", metadata(number))
    wheel.add(f"{wheel.info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: rankscope\nRoot-Is-Purelib: false\nTag: {tag}\n")
    out = wheel.write(arguments.out)
    print(f"{out} ({out.stat().st_size / 1e6:.1f} MB)", file=sys.stderr)
    print(out)


if __name__ == "__main__":
    main()
