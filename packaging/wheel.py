#!/usr/bin/env python3
"""Packs the program, the library, the viewer and the Python module into a wheel.

The program is not a part of Python, so one wheel is for every Python 3. Its tag names the oldest glibc that its files run on,
which their symbols determine. The same files give the same wheel, byte for byte.

    packaging/wheel.py --program FILE --library FILE [--viewer FILE] [--out DIRECTORY]
"""

import argparse
import base64
import hashlib
import os
import sys
import time
import zipfile

from artefacts import LICENCES, ROOT, add_arguments, built, glibc, installed, machine, version

# Zip files have no earlier time.
EARLIEST = 315532800
SUMMARY = "Shows what a distributed training job really does: NCCL, Gloo and CUPTI on one time axis, without code changes"
EXTRAS = {
    "sql": [f"rankscope-sql=={version()}"],
    "cluster": [f"rankscope-cluster=={version()}"],
    "session": ["pyarrow>=14"],
    "pandas": ["pyarrow>=14", "pandas>=2"],
    "polars": ["pyarrow>=14", "polars>=1"],
    "plot": ["pyarrow>=14", "matplotlib>=3.5"],
}


class Wheel:
    """Files of a wheel, by their paths in it."""

    def __init__(self, name, tag):
        self.name, self.tag, self.files = name, tag, {}
        self.info, self.data = f"{name}.dist-info", f"{name}.data"

    def add(self, path, content, is_program=False):
        self.files[path] = (content if isinstance(content, bytes) else content.encode(), is_program)

    def finish(self, metadata, directory):
        """Adds what every wheel has, writes the file, and prints its path."""
        for name in LICENCES:
            self.add(f"{self.info}/licenses/{name}", (ROOT / name).read_bytes())
        self.add(f"{self.info}/METADATA", metadata)
        tag = f"Tag: {self.tag}\n"
        self.add(f"{self.info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: rankscope\nRoot-Is-Purelib: false\n{tag}")
        out = self.write(directory)
        print(f"{out} ({out.stat().st_size / 1e6:.1f} MB)", file=sys.stderr)
        print(out)

    def write(self, folder):
        record = f"{self.info}/RECORD"
        lines = []
        for path, (content, _) in sorted(self.files.items()):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{path},sha256={digest},{len(content)}\n")
        self.add(record, "".join(lines) + f"{record},,\n")
        folder.mkdir(parents=True, exist_ok=True)
        out = folder / f"{self.name}-{self.tag}.whl"
        seconds = max(int(os.environ.get("SOURCE_DATE_EPOCH", EARLIEST)), EARLIEST)
        moment = time.gmtime(seconds)[:6]
        # The metadata last, as the specification recommends.
        order = sorted(self.files, key=lambda path: (path.startswith(self.info), path == record, path))
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for path in order:
                content, is_program = self.files[path]
                entry = zipfile.ZipInfo(path, moment)
                entry.compress_type = zipfile.ZIP_DEFLATED
                entry.external_attr = (0o100755 if is_program else 0o100644) << 16
                archive.writestr(entry, content)
        return out


def metadata(number):
    lines = [
        "Metadata-Version: 2.4",
        "Name: rankscope",
        f"Version: {number}",
        f"Summary: {SUMMARY}",
        "License-Expression: Apache-2.0 OR MIT",
        "License-File: LICENSE-APACHE",
        "License-File: LICENSE-MIT",
        "Requires-Python: >=3.8",
        "Project-URL: Source, https://github.com/rankscope/rankscope",
        "Classifier: Environment :: Console",
        "Classifier: Operating System :: POSIX :: Linux",
        "Classifier: Topic :: System :: Distributed Computing",
    ]
    for extra, packages in EXTRAS.items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f"Requires-Dist: {package}; extra == '{extra}'" for package in packages]
    lines += ["Description-Content-Type: text/markdown", "", (ROOT / "packaging/DESCRIPTION.md").read_text()]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_arguments(parser)
    arguments = parser.parse_args()
    files = built(arguments)
    number, oldest = version(), glibc(files)
    tag = f"py3-none-manylinux_{oldest[0]}_{oldest[1]}_{machine(files)[0]}"
    wheel = Wheel(f"rankscope-{number}", tag)

    for path, (content, _) in installed(arguments).items():
        # pip makes these executable, and puts the other files below the environment.
        is_program = path.startswith("bin/")
        place = f"scripts/{path[4:]}" if is_program else f"data/{path}"
        wheel.add(f"{wheel.data}/{place}", content, is_program)
    for file in sorted((ROOT / "layer/python/rankscope").iterdir()):
        if file.suffix in (".py", ".pyi") or file.name == "py.typed":
            wheel.add(f"rankscope/{file.name}", file.read_bytes())
    wheel.finish(metadata(number), arguments.out)


if __name__ == "__main__":
    main()
