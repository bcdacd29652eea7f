"""Links, includes and anchors of a Markdown file. Python's standard library only.

Used by check_links.py, which checks them, and by includes.py, which rewrites them for the book.
"""

import re
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

FENCE = re.compile(r"^ {0,3}(?:> ?)*(`{3,}|~{3,})(.*)$")
CODE_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
# `](destination "title")`: the end of a link or an image.
INLINE = re.compile(
    r"\]\(\s*(?:<(?P<angle>[^<>\n]*)>|(?P<plain>[^()\s<>]*(?:\([^()\s]*\)[^()\s]*)*))"
    r"(?:\s+(?:\"[^\"]*\"|'[^']*'))?\s*\)"
)
DEFINITION = re.compile(r"^ {0,3}\[[^\]^][^\]]*\]:\s*<?(?P<plain>[^\s<>]+)>?", re.MULTILINE)
ATTRIBUTE = re.compile(r"<(?P<tag>\w+)\b[^>]*?\s(?:href|src)=[\"'](?P<plain>[^\"']*)[\"']", re.IGNORECASE)
ELEMENT_ID = re.compile(r"<\w+\b[^>]*?\s(?:id|name)=[\"']([^\"']+)[\"']", re.IGNORECASE)
INCLUDE = re.compile(r"(?<!\\)\{\{#(?:include|rustdoc_include|playground|template)\s+(?P<path>[^\s}:]+)(?P<part>:[^\s}]*)?[^}]*\}\}")
HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
SETEXT = re.compile(r"^ {0,3}(?:=+|-+)[ \t]*$")
EXPLICIT_ID = re.compile(r"\s*\{[^}]*#([\w-]+)[^}]*\}\s*$")


class Link(NamedTuple):
    """A destination as it is written, and where: [start, end) in the text."""

    destination: str
    start: int
    end: int
    is_image: bool


class Include(NamedTuple):
    """A directive of mdBook that takes another file in."""

    path: str
    is_whole: bool
    start: int
    end: int


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def fences(text: str):
    """Code blocks: (info string, first line's number, lines)."""
    open_mark, info, first, lines = None, "", 0, []
    for number, line in enumerate(text.split("\n"), 1):
        found = FENCE.match(line)
        if open_mark is None:
            if found and not (found[1][0] == "`" and "`" in found[2]):
                open_mark, info, first, lines = found[1], found[2].strip(), number + 1, []
        elif found and found[1][0] == open_mark[0] and len(found[1]) >= len(open_mark) and not found[2].strip():
            yield info, first, lines
            open_mark = None
        else:
            lines.append(line)
    if open_mark is not None:
        yield info, first, lines


def without_code(text: str) -> str:
    """The text with its code and comments blanked out; every position stays."""
    lines = text.split("\n")
    for _info, first, block in fences(text):
        for at in range(first - 2, min(first + len(block), len(lines))):
            lines[at] = _blank(lines[at])
    text = "\n".join(lines)
    text = COMMENT.sub(lambda found: _blank(found[0]), text)
    return CODE_SPAN.sub(lambda found: _blank(found[0]), text)


def links(text: str) -> list[Link]:
    """Links and images, in the order of the text."""
    prose = without_code(text)
    found = []
    for match in INLINE.finditer(prose):
        group = "plain" if match["angle"] is None else "angle"
        found.append(Link(match[group], match.start(group), match.end(group), _is_image(prose, match.start())))
    for match in DEFINITION.finditer(prose):
        found.append(Link(match["plain"], match.start("plain"), match.end("plain"), False))
    for match in ATTRIBUTE.finditer(prose):
        is_image = match["tag"].lower() in ("img", "source")
        found.append(Link(match["plain"], match.start("plain"), match.end("plain"), is_image))
    return sorted(found, key=lambda link: link.start)


def _is_image(prose: str, end_of_label: int) -> bool:
    depth = 0
    for at in range(end_of_label, -1, -1):
        if prose[at] == "]":
            depth += 1
        elif prose[at] == "[":
            depth -= 1
            if depth == 0:
                return at > 0 and prose[at - 1] == "!"
    return False


def includes(text: str) -> list[Include]:
    """Directives that take another file in."""
    return [
        Include(match["path"], match["part"] is None, match.start(), match.end()) for match in INCLUDE.finditer(text)
    ]


def anchors(text: str) -> set[str]:
    """What `#…` may name in a file: its headings as GitHub and mdBook number them, and explicit ids."""
    prose = text
    lines = prose.split("\n")
    for _info, first, block in fences(text):
        for at in range(first - 2, min(first + len(block), len(lines))):
            lines[at] = ""
    headings = []
    for at, line in enumerate(lines):
        found = HEADING.match(line)
        if found:
            headings.append(found[1])
        elif at > 0 and SETEXT.match(line) and lines[at - 1].strip() and not lines[at - 1].lstrip().startswith(("|", ">", "-")):
            headings.append(lines[at - 1].strip())
    out, seen = set(), {}
    for heading in headings:
        explicit = EXPLICIT_ID.search(heading)
        if explicit:
            out.add(explicit[1])
            continue
        name = anchor_of(heading)
        count = seen.get(name, 0)
        seen[name] = count + 1
        out.add(f"{name}-{count}" if count else name)
    out.update(ELEMENT_ID.findall(text))
    return out


def anchor_of(heading: str) -> str:
    """The id of a heading."""
    heading = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    heading = re.sub(r"<[^>]+>", "", heading)
    heading = heading.replace("`", "").replace("*", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def is_elsewhere(destination: str) -> bool:
    """True if it leads to another machine."""
    return bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", destination)) or destination.startswith("//")


def split(destination: str) -> tuple[str, str]:
    """File and anchor."""
    path, _, anchor = destination.partition("#")
    return unquote(path), unquote(anchor)


def line_of(text: str, at: int) -> int:
    """The number of the line of a position."""
    return text.count("\n", 0, at) + 1


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")
