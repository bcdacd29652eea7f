#!/usr/bin/env python3
"""Makes the pictures of the book anew, from the recordings beside it.

    docs/book/pictures.py RANKSCOPE [NAME…]

Without names all of them. Pictures of the viewer need rankscope-viewer beside RANKSCOPE, those of the report need chromium on
the PATH (CHROMIUM names another browser). What is not there is left out, and said. Look at the pictures before you commit them.
"""

import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

BOOK = Path(__file__).resolve().parent
PICTURES = BOOK / "src/pictures"
RECORDINGS = BOOK / "recordings"
REPOSITORY = BOOK.parents[1]
MOST_BYTES = 200_000
IMPORTED = ("imported", "tests/fixtures/hta/fsdp_rank3.json.gz")

# Run, and the options of the viewer.
VIEWS = {
    "introduction": ("demo-run", "--select 214 --range 14.8s..15.16s --only-timeline --size 1200x690"),
    "viewer-window": ("demo-run", "--range 14.3s..15.2s --size 1400x860"),
    "viewer-heatmap": ("demo-run", "--panel heat-maps --size 1200x760"),
    "viewer-filter": ("demo-run", "--range 14.3s..15.2s --filter wait>50ms --only-timeline --size 1200x640"),
    "straggler-timeline": ("straggler", "--range 9.95s..10.4s --only-timeline --size 1200x420"),
    "exposed-timeline": ("exposed", "--range 6s..6.5s --only-timeline --size 1200x470"),
    "link-timeline": ("link", "--range 5s..5.3s --only-timeline --size 1200x560"),
    "hosts-timeline": ("hosts", "--range 8s..8.4s --only-timeline --size 1200x470"),
    "kernels-timeline": ("imported", "--range 150ms..240ms --only-timeline --size 1200x560"),
    "ray-tasks": ("ray", "--range 1.05s..1.4s --only-timeline --size 1200x420"),
}
# Run, and the options of rankscope heatmap.
MAPS = {
    "straggler-delay": ("straggler", "--kind delay"),
    "link-bandwidth": ("link", "--kind traffic --value bandwidth"),
}
# Run, and the blocks of its report by their headings; the first one, before any heading, is "".
PAGES = {
    "report-top": ("demo-run", ["", "Findings"]),
    "report-waits": ("demo-run", ["Where each rank's time went", "Waits over time"]),
    "report-steps": ("demo-run", ["Steps"]),
    "report-named": ("demo-run", ["Named parts of host time"]),
}


class Missing(Exception):
    """A picture cannot be made here."""


def run(command: list, folder: Path) -> None:
    environment = {**os.environ, "NO_COLOR": "1"}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
    if ended.returncode != 0:
        raise Missing(f"{Path(str(command[0])).name}: {ended.stderr.strip()[-300:]}")


def part_of_page(page: str, headings: list[str]) -> str:
    """The page with these blocks alone."""
    pieces = re.split(r"(?=<h2>)", page)
    head, body = pieces[0].split("<body>", 1)
    blocks = {"": body}
    for piece in pieces[1:]:
        title = re.match(r"<h2>(.*?)</h2>", piece)[1]
        blocks[title.replace("&#39;", "'").replace("&apos;", "'")] = piece
    absent = [heading for heading in headings if heading not in blocks]
    if absent:
        raise Missing(f"the report has no block {absent[0]!r}; it has {', '.join(filter(None, blocks))}")
    kept = "".join(blocks[heading] for heading in headings)
    return f"{head}<body>{kept}</body></html>".replace("<footer", "<footer hidden='hidden'")


def screenshot(page: Path, picture: Path, width: int = 1000, height: int = 3000) -> None:
    names = [os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome"]
    browser = next(filter(None, (shutil.which(name) for name in names if name)), None)
    if browser is None:
        raise Missing("there is no chromium")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1"]
    run([browser, *options, f"--window-size={width},{height}", f"--screenshot={picture}", page.as_uri()], page.parent)
    crop(picture)


def crop(picture: Path, margin: int = 16) -> None:
    """Takes the empty rows at both ends of a PNG away."""
    data = picture.read_bytes()
    chunks, at = [], 8
    while at < len(data):
        length = struct.unpack(">I", data[at : at + 4])[0]
        chunks.append((data[at + 4 : at + 8], data[at + 8 : at + 8 + length]))
        at += 12 + length
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
    channels = {2: 3, 6: 4}.get(kind)
    if depth != 8 or channels is None or interlaced:
        return
    raw = zlib.decompress(b"".join(body for name, body in chunks if name == b"IDAT"))
    stride = width * channels
    rows, before = [], bytearray(stride)
    for y in range(height):
        line = bytearray(raw[y * (stride + 1) + 1 : (y + 1) * (stride + 1)])
        unfilter(raw[y * (stride + 1)], line, before, channels)
        rows.append(line)
        before = line
    used = [y for y in range(height) if rows[y] != rows[-1]] or [height - 1]
    kept = rows[max(0, used[0] - margin) : used[-1] + 1 + margin]
    header = struct.pack(">IIBBBBB", width, len(kept), 8, kind, 0, 0, 0)
    # Row by row the filter Up or none, whichever has more zeros: good for pages.
    packed, before = [], bytearray(stride)
    for line in kept:
        up = bytes((one - other) & 255 for one, other in zip(line, before))
        packed.append(b"\2" + up if up.count(0) >= line.count(line[:1]) else b"\0" + bytes(line))
        before = line
    body = zlib.compress(b"".join(packed), 9)
    with picture.open("wb") as file:
        file.write(data[:8])
        for name, content in ((b"IHDR", header), (b"IDAT", body), (b"IEND", b"")):
            file.write(struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content)))


def unfilter(kind: int, line: bytearray, before: bytearray, step: int) -> None:
    if kind == 0:
        return
    for x in range(len(line)):
        left = line[x - step] if x >= step else 0
        up = before[x]
        if kind == 1:
            more = left
        elif kind == 2:
            more = up
        elif kind == 3:
            more = (left + up) // 2
        else:
            corner = before[x - step] if x >= step else 0
            estimate = left + up - corner
            distances = abs(estimate - left), abs(estimate - up), abs(estimate - corner)
            more = (left, up, corner)[distances.index(min(distances))]
        line[x] = (line[x] + more) & 255


def make(name: str, program: Path, folder: Path) -> None:
    target = folder / f"{name}.png"
    if name in VIEWS:
        run_name, options = VIEWS[name]
        ready(run_name, program, folder)
        run([program, "view", run_name, *options.split(), "--theme", "light", "--screenshot", target], folder)
    elif name in MAPS:
        run_name, options = MAPS[name]
        ready(run_name, program, folder)
        run([program, "heatmap", run_name, *options.split(), "--theme", "light", "-o", target], folder)
    else:
        run_name, headings = PAGES[name]
        ready(run_name, program, folder)
        part = folder / f"{name}.html"
        page = (folder / run_name / "report.html").read_text(encoding="utf-8")
        part.write_text(part_of_page(page, headings), encoding="utf-8")
        screenshot(part, target)
    size = target.stat().st_size
    if size > MOST_BYTES:
        raise Missing(f"it has {size:,} bytes, which is more than {MOST_BYTES:,}")
    shutil.copyfile(target, PICTURES / target.name)
    print(f"{target.name}: {size:,} bytes")


def ready(run_name: str, program: Path, folder: Path) -> None:
    if (folder / run_name / "session").is_dir():
        return
    if run_name == IMPORTED[0]:
        run([program, "import", "kineto", REPOSITORY / IMPORTED[1], "-o", run_name], folder)
    else:
        shutil.copytree(RECORDINGS / run_name, folder / run_name)
        run([program, "merge", run_name], folder)


def main() -> int:
    if len(sys.argv) < 2:
        print("\n".join((__doc__ or "").strip().split("\n")[:3]), file=sys.stderr)
        return 2
    program = Path(sys.argv[1]).resolve()
    every = [*VIEWS, *MAPS, *PAGES]
    unknown = [name for name in sys.argv[2:] if name not in every]
    if unknown:
        print(f"there is no picture {unknown[0]}; there are {', '.join(every)}", file=sys.stderr)
        return 2
    missing = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:] or every:
            try:
                make(name, program, Path(folder))
            except Missing as why:
                missing += 1
                print(f"{name}: not made: {why}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
