#!/usr/bin/env python3
"""Checks the links of every Markdown file of the repository.

    docs/book/check_links.py

Every relative link, image and include must lead to a file, and every `#anchor` to a heading or an id there. Every page
of the book must be in its SUMMARY.md. Problems are printed as FILE:LINE: WHAT, and the exit status is 1. Links to
other machines are not followed.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import markdown_text as markdown

BOOK = Path(__file__).resolve().parent
SOURCE = BOOK / "src"
REPOSITORY = BOOK.parents[1]
SUMMARY = SOURCE / "SUMMARY.md"
# Pages that `make docs` writes. Before that a link to them is no error.
GENERATED = {SOURCE / "reference/commands.md", SOURCE / "reference/rules.md"}
NOT_OURS = {"target", "node_modules", ".git", ".venv", "__pycache__"}


def markdown_files() -> list[Path]:
    """What git tracks or would track; without git all that is not a build product."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.md"]
    try:
        listed = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout
        files = [REPOSITORY / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        files = []
        for folder, folders, names in os.walk(REPOSITORY):
            folders[:] = [name for name in folders if name not in NOT_OURS]
            files += [Path(folder) / name for name in names if name.endswith(".md")]
    return sorted({file for file in files if file.is_file()})


class Checker:
    def __init__(self):
        self.problems: list[str] = []
        self.not_yet: set[Path] = set()
        self.links = 0
        self.known_anchors: dict[Path, set[str]] = {}

    def say(self, file: Path, text: str, at: int, what: str) -> None:
        self.problems.append(f"{file.relative_to(REPOSITORY)}:{markdown.line_of(text, at)}: {what}")

    def anchors(self, file: Path) -> set[str]:
        """Those of a file, and of what it includes whole."""
        if file not in self.known_anchors:
            self.known_anchors[file] = set()
            text = markdown.read(file)
            found = markdown.anchors(text)
            if file.is_relative_to(SOURCE):
                for include in markdown.includes(text):
                    included = (file.parent / include.path).resolve()
                    if include.is_whole and included.suffix == ".md" and included.is_file():
                        found |= self.anchors(included)
            self.known_anchors[file] = found
        return self.known_anchors[file]

    def check(self, file: Path) -> None:
        text = markdown.read(file)
        for link in markdown.links(text):
            if not markdown.is_elsewhere(link.destination):
                self.links += 1
                self.check_link(file, text, link)
        if file.is_relative_to(SOURCE):
            for include in markdown.includes(text):
                self.links += 1
                if not (file.parent / include.path).is_file():
                    self.say(file, text, include.start, f"includes {include.path}, which does not exist")

    def check_link(self, file: Path, text: str, link: markdown.Link) -> None:
        path, anchor = markdown.split(link.destination)
        if not link.destination and file == SUMMARY:
            # A chapter that is only announced.
            return
        if not link.destination or path.startswith("/"):
            self.say(file, text, link.start, f"links to '{link.destination}', which is not a relative path")
            return
        target = Path(os.path.normpath(file.parent / path)) if path else file
        if not target.is_relative_to(REPOSITORY):
            self.say(file, text, link.start, f"links to {link.destination}, outside of the repository")
        elif not target.exists():
            if target in GENERATED:
                self.not_yet.add(target)
            else:
                self.say(file, text, link.start, f"links to {link.destination}, which does not exist")
        elif link.is_image and not target.is_file():
            self.say(file, text, link.start, f"shows {link.destination}, which is not a file")
        elif anchor and target.suffix == ".md":
            if anchor not in self.anchors(target):
                self.say(file, text, link.start, f"links to {link.destination}: no heading or id '{anchor}'")
        elif anchor and not re.fullmatch(r"L\d+(-L\d+)?", anchor):
            self.say(file, text, link.start, f"links to {link.destination}: only Markdown files have anchors")

    def check_summary(self) -> None:
        """A page that SUMMARY.md does not name is in no book."""
        listed = set()
        for link in markdown.links(markdown.read(SUMMARY)):
            listed.add(Path(os.path.normpath(SOURCE / markdown.split(link.destination)[0])))
        for page in sorted(SOURCE.rglob("*.md")):
            if page != SUMMARY and page not in listed:
                self.problems.append(f"{page.relative_to(REPOSITORY)}:1: not in SUMMARY.md")


def main() -> int:
    checker = Checker()
    files = markdown_files()
    for file in files:
        checker.check(file)
    checker.check_summary()
    for problem in checker.problems:
        print(problem)
    for page in sorted(checker.not_yet):
        print(f"note: {page.relative_to(REPOSITORY)} is not generated yet", file=sys.stderr)
    print(f"{checker.links} links in {len(files)} files, {len(checker.problems)} problems", file=sys.stderr)
    return 1 if checker.problems else 0


if __name__ == "__main__":
    sys.exit(main())
