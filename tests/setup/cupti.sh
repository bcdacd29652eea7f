#!/usr/bin/env bash
# Prints the paths of real CUPTI libraries, one per version, against whose exports the table of functions is checked.
# Fetches missing ones into ${XDG_CACHE_HOME:-~/.cache}/rankscope/cupti/VERSION (about 50 MB of wheels).
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/say.sh"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rankscope/cupti
# The oldest supported version, the last one of 12, and three of 13: the first, that of common PyTorch releases, and the
# newest tested.
wheels=(
    nvidia-cuda-cupti-cu11==11.8.87
    nvidia-cuda-cupti-cu12==12.9.79
    nvidia-cuda-cupti==13.0.85
    nvidia-cuda-cupti==13.2.75
    nvidia-cuda-cupti==13.5.25
)

fetch() {
    local wheel=$1 target=$2 work
    work=$(mktemp -d)
    trap 'rm -rf "$work"' RETURN
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
        --platform manylinux_2_25_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
        --platform manylinux1_x86_64 --dest "$work" "$wheel" >"$work/log" 2>&1 || { cat "$work/log" >&2; return 1; }
    python3 - "$work" "$target" <<'PYTHON'
import glob, os, shutil, sys, zipfile
os.makedirs(sys.argv[2], exist_ok=True)
with zipfile.ZipFile(glob.glob(sys.argv[1] + "/*.whl")[0]) as wheel:
    names = [name for name in wheel.namelist() if "/lib/libcupti.so." in name]
    with wheel.open(names[0]) as library, open(sys.argv[2] + "/" + os.path.basename(names[0]), "wb") as out:
        shutil.copyfileobj(library, out)
PYTHON
}

mkdir -p "$cache"
exec 9>"$cache.lock"
flock 9
for wheel in "${wheels[@]}"; do
    version=${wheel#*==}
    if ! ls "$cache/$version"/libcupti.so.* >/dev/null 2>&1; then
        say "fetching CUPTI $version"
        rm -rf "$cache/$version.fresh" "${cache:?}/$version"
        if ! fetch "$wheel" "$cache/$version.fresh"; then
            skip "CUPTI $version cannot be fetched"
            continue
        fi
        mv "$cache/$version.fresh" "$cache/$version"
    fi
    ls "$cache/$version"/libcupti.so.*
done
