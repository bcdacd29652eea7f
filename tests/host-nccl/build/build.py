#!/usr/bin/env python3
"""Builds the real NCCL for a machine without a GPU: `build.py VERSION...`. Prints a directory per version.

A version whose sources are missing is reported on standard error and left out."""

import sys

import cache
import cuda_headers
import device_side
import nccl_sources
import stand_ins
from host_objects import Failed, HostObjects


def main():
    """Builds the versions of the command line, or all."""
    versions = sys.argv[1:] or nccl_sources.VERSIONS
    with cache.locked():
        found = []
        for version in versions:
            try:
                found.append(nccl_sources.Sources(version))
            except nccl_sources.Missing as missing:
                print(f"missing: {missing}", file=sys.stderr)
        if not found:
            return 0
        try:
            headers = cuda_headers.directory()
        except cuda_headers.Unavailable as unavailable:
            print(f"missing: {unavailable}", file=sys.stderr)
            return 0
        try:
            libraries = stand_ins.build(headers)
            for sources in found:
                print(device_side.build(HostObjects(sources, headers), libraries), flush=True)
        except Failed as failed:
            print(failed, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
