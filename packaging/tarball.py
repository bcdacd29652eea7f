#!/usr/bin/env python3
"""Packs the program, the library and the viewer into an archive for any place: `tar -xzf FILE -C /opt`, then /opt/rankscope/bin.

The same files give the same archive, byte for byte.

    packaging/tarball.py --program FILE --library FILE [--viewer FILE] [--out DIRECTORY]
"""

import argparse
import gzip
import io
import os
import sys
import tarfile

from artefacts import LICENCES, ROOT, add_arguments, built, installed, machine, version


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    arguments = parser.parse_args()
    contents = {name: ((ROOT / name).read_bytes(), 0o644) for name in LICENCES}
    contents.update(installed(arguments))
    arguments.out.mkdir(parents=True, exist_ok=True)
    out = arguments.out / f"rankscope-{version()}-linux-{machine(built(arguments))[0]}.tar.gz"
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path, (content, mode) in sorted(contents.items()):
            entry = tarfile.TarInfo(f"rankscope/{path}")
            entry.size, entry.mode, entry.mtime = len(content), mode, seconds
            archive.addfile(entry, io.BytesIO(content))
    out.write_bytes(gzip.compress(packed.getvalue(), mtime=seconds))
    print(f"{out} ({out.stat().st_size / 1e6:.1f} MB)", file=sys.stderr)
    print(out)


if __name__ == "__main__":
    main()
