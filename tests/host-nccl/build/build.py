#!/usr/bin/env python3
"""Builds the real NCCL for a machine without a GPU: `build.py VERSION...`. Prints a directory per version.

A version whose sources are missing is reported on standard error and left out. So is one that is not built yet if
HOST_NCCL_BUILD=0.

`build.py --torch PYTHON` prints a Python with the same PyTorch on the newest version instead."""

import sys

import cache
import cuda_headers
import device_side
import nccl_sources
import stand_ins
import torch_tree
from host_objects import Failed, HostObjects


def main():
    """Builds the versions of the command line, or all."""
    versions = sys.argv[1:] or nccl_sources.VERSIONS
    python = None
    if versions[0] == "--torch":
        python, versions = versions[1], nccl_sources.VERSIONS[-1:]
    with cache.locked():
        found = []
        for version in versions:
            try:
                found.append(nccl_sources.Sources(version))
            except nccl_sources.Missing as missing:
                print(f"missing: {missing}", file=sys.stderr)
            except cache.NotBuilt:
                report_not_built(version)
        if not found:
            return 0
        try:
            headers = cuda_headers.directory()
            libraries = stand_ins.build(headers)
        except cuda_headers.Unavailable as unavailable:
            print(f"missing: {unavailable}", file=sys.stderr)
            return 0
        except cache.NotBuilt:
            report_not_built("of any version")
            return 0
        try:
            for sources in found:
                try:
                    built = device_side.build(HostObjects(sources, headers), libraries)
                    print(torch_tree.build(python, built, headers) if python else built, flush=True)
                except torch_tree.Unsuitable as unsuitable:
                    print(f"missing: {unsuitable}", file=sys.stderr)
                except cache.NotBuilt:
                    report_not_built(sources.version)
        except Failed as failed:
            print(failed, file=sys.stderr)
            return 1
    return 0


def report_not_built(version):
    """Reports a version that is not built yet."""
    print(f"missing: NCCL {version} is not built yet (make host-nccl builds it)", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
