#!/usr/bin/env python3
"""Packs the program, the library and the viewer into a package for Debian and Ubuntu.

The package depends on the glibc that its files need. The viewer's window loads the libraries of the desktop when it opens, so
these are recommended. The same files give the same package, byte for byte.

    packaging/deb.py --program FILE --library FILE [--viewer FILE] [--out DIRECTORY]
"""

import argparse
import gzip
import os
import pathlib
import subprocess
import sys
import tempfile

from artefacts import LICENCES, ROOT, add_arguments, built, glibc, installed, machine, version

MAINTAINER = "The rankscope project"
# What the viewer's window loads (winit, glutin).
OF_THE_WINDOW = "libgl1, libxkbcommon0, libxkbcommon-x11-0"


def control(number, architecture, oldest, size_kib, has_viewer):
    fields = {
        "Package": "rankscope",
        "Version": number,
        "Architecture": architecture,
        "Maintainer": MAINTAINER,
        "Installed-Size": size_kib,
        "Depends": f"libc6 (>= {oldest[0]}.{oldest[1]}), libgcc-s1 | libgcc1 (>= 1:3.0)",
        "Section": "devel",
        "Priority": "optional",
        "Homepage": "https://github.com/rankscope/rankscope",
        "Description": "shows what a distributed training job really does\n"
                       " A library is preloaded into the job and records the communication of every rank: NCCL, Gloo\n"
                       " and CUPTI on one time axis. Reports show what the job waited for.",
    }
    if has_viewer:
        fields["Recommends"] = OF_THE_WINDOW
    return "".join(f"{name}: {value}\n" for name, value in fields.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    arguments = parser.parse_args()
    files = built(arguments)
    contents = {"share/doc/rankscope/copyright": (b"\n\n".join((ROOT / name).read_bytes() for name in LICENCES), 0o644)}
    for path, (content, mode) in installed(arguments).items():
        if path.startswith("share/man/"):
            path, content = f"{path}.gz", gzip.compress(content, mtime=0)
        # Debian's packages have these folders.
        path = path.replace("share/zsh/site-functions", "share/zsh/vendor-completions")
        contents[path] = (content, mode)

    number, (_, architecture) = version(), machine(files)
    size_kib = sum(len(content) for content, _ in contents.values()) // 1024
    arguments.out.mkdir(parents=True, exist_ok=True)
    out = arguments.out / f"rankscope_{number}_{architecture}.deb"
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "root"
        for path, (content, mode) in contents.items():
            file = root / "usr" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            file.chmod(mode)
        (root / "DEBIAN").mkdir()
        text = control(number, architecture, glibc(files), size_kib, bool(arguments.viewer))
        (root / "DEBIAN/control").write_text(text)
        (root / "DEBIAN/control").chmod(0o644)
        for path in [root, *root.rglob("*")]:
            if path.is_dir():
                path.chmod(0o755)
        environment = {**os.environ, "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "315532800")}
        command = ["dpkg-deb", "--build", "--root-owner-group", "-Zxz", root, out]
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    print(f"{out} ({out.stat().st_size / 1e6:.1f} MB)", file=sys.stderr)
    print(out)


if __name__ == "__main__":
    main()
