"""Cuts the files of RANKSCOPE_CUPTI_DUMP to the size of a fixture: python dumps.py NAME DIRECTORY INTO.

Each DIRECTORY/PID.cuptidump becomes INTO/NAME.cuptidump.gz (the next ones NAME-2 and so on). It keeps the line at the
head and the first two megabytes of records. Prints a line of JSON per file."""

import collections
import glob
import gzip
import json
import os
import struct
import sys

MOST_BYTES = 2_000_000
name, directory, into = sys.argv[1:4]
has_failed = False
files = sorted(glob.glob(f"{directory}/*.cuptidump"))
os.makedirs(into, exist_ok=True)
for number, path in enumerate(files, 1):
    data = open(path, "rb").read(MOST_BYTES + (1 << 20))
    line, rest = data.partition(b"\n")[0], data.partition(b"\n")[2]
    at, kinds, failures = 0, collections.Counter(), []
    if not line.startswith(b"rankscope cupti dump 1 "):
        failures.append(f"begins with {line[:40]!r}")
    while not failures and at + 4 <= len(rest):
        (length,) = struct.unpack_from("<I", rest, at)
        if at + 4 + length > min(len(rest), MOST_BYTES):
            break
        if length >= 4:
            kinds[f"{struct.unpack_from('<I', rest, at + 4)[0]}, {length} bytes"] += 1
        at += 4 + length
    target = f"{name}{'' if number == 1 else f'-{number}'}.cuptidump.gz"
    # The time is omitted: the same records make the same file.
    with open(f"{into}/{target}", "wb") as raw, gzip.GzipFile("", "wb", 9, raw, 0) as file:
        file.write(line + b"\n" + rest[:at])
    result = {"part": "fixtures", "file": target, "head": line.decode(errors="replace"), "kept_bytes": at}
    result.update(bytes=os.path.getsize(path), kinds=dict(kinds), ok=not failures, failures=failures)
    has_failed |= bool(failures)
    print(json.dumps(result))
if not files:
    print(
        json.dumps(
            {
                "part": "fixtures",
                "file": None,
                "for": name,
                "ok": True,
                "failures": [],
                "note": "the library saved none",
            }
        )
    )
sys.exit(has_failed)
