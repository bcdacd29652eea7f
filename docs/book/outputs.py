#!/usr/bin/env python3
"""Renews the outputs of rankscope that pages of the book show, from recordings beside them.

    docs/book/outputs.py RANKSCOPE            writes them into the pages
    docs/book/outputs.py RANKSCOPE --check    exit status 1 if one is out of date

Such an output is a code block after a comment that says which command prints it, and which lines are shown:

    <!-- output: report demo-run | from "Coverage" to "Summary" -->
    <!-- output: report demo-run | from "Operations" lines 6 -->

From the first line that begins with the first text, leading spaces apart, to the line before the one that begins with the
second text. The command runs where the runs of recordings/ are directories, merged, and tests/ is that of the repository. No
block is written by hand: if the words of a report change, run this program.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import markdown_text as markdown

BOOK = Path(__file__).resolve().parent
SOURCE = BOOK / "src"
RECORDINGS = BOOK / "recordings"
REPOSITORY = BOOK.parents[1]
LONGEST_S = 120

BLOCK = re.compile(
    r'<!-- output: (?P<command>[^|\n]+) \| from "(?P<first>[^"\n]+)"'
    r'(?: to "(?P<end>[^"\n]+)"| lines (?P<lines>\d+))? -->\n```\w*\n(?P<body>.*?)^```$',
    re.DOTALL | re.MULTILINE,
)


class Failure(Exception):
    """A block that cannot be renewed."""


class Outputs:
    """What commands print. Each runs once."""

    def __init__(self, program: Path, folder: Path):
        self.program, self.folder = program, folder
        self.known: dict[str, list[str]] = {}
        (folder / "tests").symlink_to(REPOSITORY / "tests")
        for recording in sorted(RECORDINGS.iterdir()):
            shutil.copytree(recording, folder / recording.name)

    def of(self, command: str) -> list[str]:
        if command not in self.known:
            arguments = shlex.split(command)
            for run in arguments:
                if (RECORDINGS / run).is_dir() and not (self.folder / run / "session").is_dir():
                    self.run(["merge", run])
            self.known[command] = self.run(arguments)
        return self.known[command]

    def run(self, arguments: list[str]) -> list[str]:
        environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        ended = subprocess.run(
            [self.program, *arguments],
            cwd=self.folder,
            env={**environment, "NO_COLOR": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
        if ended.returncode != 0:
            raise Failure(f"rankscope {shlex.join(arguments)}: exit status {ended.returncode}: {ended.stderr.strip()}")
        return ended.stdout.split("\n")


def part(lines: list[str], block: re.Match) -> str:
    """The lines that a block shows."""

    def place(text: str, after: int) -> int:
        for at in range(after, len(lines)):
            if lines[at].lstrip().startswith(text):
                return at
        raise Failure(f"no line of `rankscope {block['command']}` begins with \"{text}\"")

    first = place(block["first"], 0)
    if block["lines"]:
        end = first + int(block["lines"])
    else:
        end = place(block["end"], first + 1) if block["end"] else len(lines)
    return "\n".join(line.rstrip() for line in lines[first:end]).rstrip()


def main() -> int:
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--check"]):
        print("\n".join((__doc__ or "").strip().split("\n")[:4]), file=sys.stderr)
        return 2
    only_checks = len(sys.argv) == 3
    count, stale = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        outputs = Outputs(Path(sys.argv[1]).resolve(), Path(folder))
        for page in sorted(SOURCE.rglob("*.md")):
            text = markdown.read(page)
            new, at = [], 0
            for block in BLOCK.finditer(text):
                count += 1
                place = f"{page.relative_to(REPOSITORY)}:{markdown.line_of(text, block.start())}"
                try:
                    body = part(outputs.of(block["command"]), block) + "\n"
                except Failure as failure:
                    print(f"{place}: {failure}")
                    stale += 1
                    continue
                if body != block["body"]:
                    stale += only_checks
                    print(f"{place}: {'is out of date' if only_checks else 'renewed'}")
                new += [text[at : block.start("body")], body]
                at = block.end("body")
            new.append(text[at:])
            if not only_checks and "".join(new) != text:
                page.write_text("".join(new), encoding="utf-8")
    print(f"{count} outputs, {stale} wrong", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
