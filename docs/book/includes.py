#!/usr/bin/env python3
"""A preprocessor of mdBook: pages that include a document of the repository, and links that leave the book.

`{{#include ../../../METRICS.md}}` takes in a document that has its place elsewhere in the repository. Its relative links start
there. This preprocessor takes such documents in itself, and rewrites their links and those of the pages:

- to a document that a page of the book includes: to that page,
- to another file of the repository: to the repository on the web (`git-repository-url` in book.toml),
- pictures outside of the book: into the page itself.

Parts of files (`{{#include file:anchor}}`) and files inside the book stay as they are: mdBook takes them in.
"""

import base64
import json
import mimetypes
import os
import sys
from pathlib import Path

import markdown_text as markdown


class Links:
    """Where links of the book lead."""

    def __init__(self, context: dict, chapters: list[dict]):
        root = Path(context["root"]).resolve()
        config = context["config"]
        self.source = (root / config.get("book", {}).get("src", "src")).resolve()
        self.repository = root.parents[1]
        html = config.get("output", {}).get("html", {})
        self.url = html.get("git-repository-url", "").rstrip("/")
        self.pages = {}
        for chapter in chapters:
            page = self.source / chapter["path"]
            self.pages[page] = page
            for include in markdown.includes(chapter["content"]):
                if include.is_whole:
                    self.pages.setdefault((page.parent / include.path).resolve(), page)

    def content(self, chapter: dict) -> str:
        """The text of a chapter, with what it includes from outside of the book."""
        page = self.source / chapter["path"]
        text = chapter["content"]
        out, at = [], 0
        for include in markdown.includes(text):
            file = (page.parent / include.path).resolve()
            if not include.is_whole or file.is_relative_to(self.source):
                continue
            if not file.is_file():
                sys.exit(f"{chapter['path']} includes {include.path}, which does not exist")
            out.append(self.rewritten(text[at : include.start], page, page))
            if file.suffix == ".md":
                out.append(self.rewritten(markdown.read(file), file, page))
            else:
                out.append(markdown.read(file))
            at = include.end
        out.append(self.rewritten(text[at:], page, page))
        return "".join(out)

    def rewritten(self, text: str, file: Path, page: Path) -> str:
        """A text of `file` with links that work on `page`."""
        for link in reversed(markdown.links(text)):
            to = self.destination(link, file, page)
            text = text[: link.start] + to + text[link.end :]
        return text

    def destination(self, link: markdown.Link, file: Path, page: Path) -> str:
        path, anchor = markdown.split(link.destination)
        if not path or markdown.is_elsewhere(link.destination):
            return link.destination
        target = Path(os.path.normpath(file.parent / path))
        fragment = f"#{anchor}" if anchor else ""
        to_page = self.pages.get(target)
        if to_page or target.is_relative_to(self.source):
            return os.path.relpath(to_page or target, page.parent) + fragment
        if link.is_image and target.is_file():
            kind = mimetypes.guess_type(target.name)[0] or "application/octet-stream"
            return f"data:{kind};base64,{base64.b64encode(target.read_bytes()).decode()}"
        place = "tree" if target.is_dir() else "blob"
        return f"{self.url}/{place}/HEAD/{target.relative_to(self.repository).as_posix()}{fragment}"


def all_chapters(items: list) -> list[dict]:
    """Chapters that have a page, in the order of the book."""
    out = []
    for item in items:
        chapter = item.get("Chapter") if isinstance(item, dict) else None
        if chapter:
            if chapter.get("path"):
                out.append(chapter)
            out.extend(all_chapters(chapter["sub_items"]))
    return out


def main() -> None:
    if sys.argv[1:2] == ["supports"]:
        return
    context, book = json.load(sys.stdin)
    # mdBook 0.4 says "sections".
    chapters = all_chapters(book["items"] if "items" in book else book["sections"])
    links = Links(context, chapters)
    for chapter in chapters:
        chapter["content"] = links.content(chapter)
    json.dump(book, sys.stdout)


if __name__ == "__main__":
    main()
