#!/usr/bin/env bash
# Prints the directories of real NCCL libraries, one per version, against whose exports the tables are checked. Fetches
# missing ones into ${XDG_CACHE_HOME:-~/.cache}/rankscope/nccl/VERSION (about 1.1 GB).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/say.sh"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rankscope/nccl
# The oldest supported version, those of common PyTorch releases, and the newest tested.
versions=(2.18.3 2.21.5 2.28.9 2.32.3)

fetch() {
    local version=$1 work
    work=$(mktemp -d)
    trap 'rm -rf "$work"' RETURN
    for tag in manylinux_2_27 manylinux_2_18 manylinux2014 manylinux1; do
        if python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
            --platform "${tag}_x86_64" --dest "$work" "nvidia-nccl-cu12==$version" >"$work/log" 2>&1; then
            break
        fi
    done
    # Keeps only the library. The wheel is deleted at once.
    python3 - "$work" "$cache/$version.fresh" <<'PYTHON' || { cat "$work/log" >&2; return 1; }
import glob, os, shutil, sys, zipfile
wheels = glob.glob(sys.argv[1] + "/*.whl")
if not wheels:
    sys.exit(1)
os.makedirs(sys.argv[2], exist_ok=True)
with zipfile.ZipFile(wheels[0]) as wheel, open(sys.argv[2] + "/libnccl.so.2", "wb") as out:
    with wheel.open("nvidia/nccl/lib/libnccl.so.2") as library:
        shutil.copyfileobj(library, out)
PYTHON
    rm -rf "${cache:?}/$version"
    mv "$cache/$version.fresh" "$cache/$version"
}

mkdir -p "$cache"
exec 9>"$cache.lock"
flock 9
for version in "${versions[@]}"; do
    if [ ! -s "$cache/$version/libnccl.so.2" ]; then
        say "fetching NCCL $version"
        if ! fetch "$version"; then
            skip "NCCL $version cannot be fetched"
            continue
        fi
    fi
    echo "$cache/$version"
done
