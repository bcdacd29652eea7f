#!/usr/bin/env python3
"""Writes nccl_variables.rs, the environment variables that each version of NCCL reads, from NCCL's sources.

    nccl_variables.py /path/to/nccl.git > nccl_variables.rs

The argument is a clone of https://github.com/NVIDIA/nccl with its tags. A variable counts as read if the library's
sources name it in NCCL_PARAM or a variant of it, getenv, ncclGetEnv or ncclGetEnvImpl.
"""

import re
import subprocess
import sys

REPOSITORY = sys.argv[1]
TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)-1$")
FIRST = (2, 18, 1)
PATTERNS = [
    (re.compile(r'NCCL_PARAM(?:_[A-Z]+)*\(\s*\w+\s*,\s*"([A-Z0-9_]+)"'), "NCCL_"),
    (re.compile(r'(?:getenv|secure_getenv|ncclGetEnv|ncclGetEnvImpl|ncclEnvPluginGetEnv)\(\s*"(NCCL_[A-Z0-9_]+)"'), ""),
    # Since 2.30.
    (re.compile(r'DEFINE_NCCL_PARAM\w*\(\s*\w+\s*,\s*[^,]+,\s*(NCCL_[A-Z0-9_]+)'), ""),
    # Names that reach a reading function through a constant, a table or a parameter.
    (re.compile(r'(?:define|=|\{|,|\()\s*(?:\w+\s+)?"(NCCL_[A-Z0-9_]+)"'), ""),
]


# Read by the build, not by the library.
NOT_READ = {"NCCL_USE_CMAKE"}


def git(*arguments):
    return subprocess.run(["git", "-C", REPOSITORY, *arguments], capture_output=True, text=True, errors="replace").stdout


def variables(tag):
    found = set()
    lines = git("grep", "-hE", r'NCCL_PARAM|"NCCL_[A-Z0-9_]+"', tag, "--", "src")
    for pattern, prefix in PATTERNS:
        found.update(prefix + name for name in pattern.findall(lines))
    # Macros over several lines.
    text = git("grep", "-hE", "-A2", "NCCL_PARAM", tag, "--", "src")
    found.update("NCCL_" + name for name in PATTERNS[0][0].findall(text))
    return {name for name in found if not name.endswith("_")} - NOT_READ


versions = sorted(
    tuple(map(int, match.groups()))
    for match in map(TAG.match, git("tag").split())
    if match and tuple(map(int, match.groups())) >= FIRST
)
reads = {version: variables("v%d.%d.%d-1" % version) for version in versions}
names = sorted(set().union(*reads.values()))

print("""//! Environment variables that each version of NCCL reads. nccl_variables.py generates this file from NCCL's sources; do
//! not edit it.

/// Versions of NCCL in the table, in NCCL's numeric form such as 22807.
#[rustfmt::skip]
pub const VERSIONS: &[u32] = &[""")
print("    " + ", ".join("%d" % (a * 10000 + b * 100 + c) for a, b, c in versions) + ",")
print("""];

/// Variables with the first and the last position in [`VERSIONS`] of the versions that read them.
#[rustfmt::skip]
pub const VARIABLES: &[(&str, u8, u8)] = &[""")
for name in names:
    inside = [at for at, version in enumerate(versions) if name in reads[version]]
    print('    ("%s", %d, %d),' % (name, inside[0], inside[-1]))
print("];")
