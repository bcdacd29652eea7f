"""NCCL's sources as released. They are an input of the build and never part of the project."""

import os
import re
import tarfile
from pathlib import Path

import cache

VERSIONS = ("2.18.3", "2.21.5", "2.27.5", "2.28.9", "2.30.7")
REPOSITORY = Path(__file__).resolve().parents[3]
ADDRESS = "https://github.com/NVIDIA/nccl/archive/refs/tags/v{}-1.tar.gz"


class Missing(Exception):
    """The sources of a version are not on this machine."""


def places():
    """Returns the directories that may hold archives."""
    named = os.environ.get("RANKSCOPE_NCCL_SOURCES")
    beside = [REPOSITORY.parent / "shared" / "nccl_without_gpu" / "sources"]
    return ([Path(named)] if named else []) + beside


def archive(version):
    """Returns the archive of a version."""
    for place in places():
        for pattern in (f"nccl-{version}-1.tar.*", f"v{version}-1.tar.*"):
            for path in sorted(place.glob(pattern)):
                return path
    raise Missing(
        f"no sources of NCCL {version}: download {ADDRESS.format(version)} into a directory "
        "and name the directory in RANKSCOPE_NCCL_SOURCES"
    )


class Sources:
    """The unpacked sources of one version."""

    def __init__(self, version):
        self.version = version
        path = archive(version)
        self.key = cache.digest(path)
        entry = cache.ROOT / f"sources-{version}-{self.key}"
        if not entry.exists():
            with cache.fresh(entry) as out, tarfile.open(path) as packed:
                packed.extractall(out)
        self.directory = next(path for path in entry.iterdir() if (path / "src" / "nccl.h.in").exists()) / "src"

    @property
    def minor(self):
        """Returns the number between the points."""
        return int(self.version.split(".")[1])

    def host_files(self):
        """Returns the files that run on the host, without tools, tests, and code for other systems."""
        left_out = re.compile(
            r"/(device|gdaki|bindings|contrib|tests?)/|ras/client\.cc|enhcompat\.cc|windows|net_ib_stub|net_socket_stub"
        )
        found = (path for path in self.directory.rglob("*.cc"))
        return sorted(path for path in found if not left_out.search(f"/{path.relative_to(self.directory)}"))

    def public_header(self):
        """Returns the text of nccl.h, which NCCL's makefile makes by the same replacement."""
        major, minor, patch = (int(part) for part in self.version.split("."))
        text = (self.directory / "nccl.h.in").read_text()
        values = {"Major": major, "Minor": minor, "Patch": patch, "Suffix": ""}
        values["Version"] = f"{major}{minor:02d}{patch:02d}"
        for name, value in values.items():
            text = text.replace("${nccl:%s}" % name, str(value))
        return text
