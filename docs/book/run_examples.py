#!/usr/bin/env python3
"""Runs the examples of the book.

    docs/book/run_examples.py RANKSCOPE RUN

RANKSCOPE is the program, RUN a run directory: one that was merged, or that only holds rank logs, for example
tests/fixtures/ddp_gloo. Every code block with the info string `console,run` is run: each line that begins with `$ `, by
bash, where a copy of RUN is the directory `demo-run` and the program is `rankscope` on the PATH. The other lines of
a block are output, which is not compared. A command that fails or hangs is printed as FILE:LINE, and the exit status
is 1.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import markdown_text as markdown

BOOK = Path(__file__).resolve().parent
SOURCE = BOOK / "src"
REPOSITORY = BOOK.parents[1]
LONGEST_S = 120


def commands(page: Path):
    """(line number, command) of the blocks that can be run."""
    for info, first, lines in markdown.fences(markdown.read(page)):
        if [word.strip() for word in info.split(",")][:2] != ["console", "run"]:
            continue
        at = 0
        while at < len(lines):
            number, line = first + at, lines[at]
            at += 1
            if not line.startswith("$ "):
                continue
            command = line[2:]
            while command.endswith("\\") and at < len(lines):
                command = command[:-1] + lines[at].strip()
                at += 1
            yield number, command


def run(command: str, folder: Path, environment: dict) -> str | None:
    """Why it failed."""
    try:
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LONGEST_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"still ran after {LONGEST_S} s"
    if ended.returncode == 0:
        return None
    output = ended.stdout.decode(errors="replace").strip().split("\n")
    return f"exit status {ended.returncode}\n    " + "\n    ".join(output[-10:])


def main() -> int:
    if len(sys.argv) != 3:
        print("\n".join((__doc__ or "").strip().split("\n")[:3]), file=sys.stderr)
        return 2
    program, recorded = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    for path in (program, recorded):
        if not path.exists():
            print(f"{path} does not exist", file=sys.stderr)
            return 2
    count, failures = 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "bin").mkdir()
        (folder / "bin/rankscope").symlink_to(program)
        environment = {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"}
        environment["NO_COLOR"] = "1"
        shutil.copytree(recorded, folder / "demo-run")
        if not (folder / "demo-run/session").is_dir():
            failure = run("rankscope merge demo-run", folder, environment)
            if failure:
                print(f"cannot merge {recorded}: {failure}")
                return 1
        for page in sorted(SOURCE.rglob("*.md")):
            for number, command in commands(page):
                count += 1
                failure = run(command, folder, environment)
                if failure:
                    failures += 1
                    print(f"{page.relative_to(REPOSITORY)}:{number}: {command}\n    {failure}")
    print(f"{count - failures} passed, {failures} failed", file=sys.stderr)
    if count == 0:
        print("no page has a block `console,run`", file=sys.stderr)
    return 1 if failures or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
