#!/usr/bin/env bash
# Generates src/bindings.rs from CUPTI's headers. They come from wheels of the package registry and are never committed:
#
#   interpose/cupti-sys/generate.sh           uses the newest version
#   interpose/cupti-sys/generate.sh --check   also compares it with older versions: offsets and numbers must be equal
#                                             (about 90 MB of wheels)
#
# Needs cargo, python3 with venv, and the network. Needs neither CUDA nor clang.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check libclang==18.1.1

# Unpacks the wheels of these three packages into the include directories cupti, runtime and crt.
# headers DIRECTORY CUPTI RUNTIME CRT
headers() {
    local directory=$1 part wheels
    shift
    for part in cupti runtime crt; do
        wheels=$work/wheels/$part-$1
        mkdir -p "$wheels" "$directory/$part"
        "$work/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
            --platform manylinux_2_25_x86_64 --platform manylinux_2_17_x86_64 --platform manylinux2014_x86_64 \
            --platform manylinux1_x86_64 --dest "$wheels" "$1"
        # The folder of the headers differs between versions, but its path always contains /include/.
        python3 - "$wheels" "$directory/$part" <<'PYTHON'
import glob, os, sys, zipfile
for path in glob.glob(sys.argv[1] + "/*.whl"):
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            if "/include/" in name and not name.endswith("/"):
                target = os.path.join(sys.argv[2], name.split("/include/", 1)[1])
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as out:
                    out.write(wheel.read(name))
PYTHON
        shift
    done
}

crt=nvidia-cuda-crt==13.5.37
headers "$work/13.5" nvidia-cuda-cupti==13.5.25 nvidia-cuda-runtime==13.5.37 "$crt"
older=()
if [ "${1:-}" = --check ]; then
    while read -r version cupti runtime; do
        headers "$work/$version" "$cupti" "$runtime" "$crt"
        older+=("$work/$version")
    done <<'VERSIONS'
11.8 nvidia-cuda-cupti-cu11==11.8.87 nvidia-cuda-runtime-cu11==11.8.89
12.1 nvidia-cuda-cupti-cu12==12.1.105 nvidia-cuda-runtime-cu12==12.1.105
12.4 nvidia-cuda-cupti-cu12==12.4.127 nvidia-cuda-runtime-cu12==12.4.127
12.6 nvidia-cuda-cupti-cu12==12.6.80 nvidia-cuda-runtime-cu12==12.6.77
12.8 nvidia-cuda-cupti-cu12==12.8.90 nvidia-cuda-runtime-cu12==12.8.90
12.9 nvidia-cuda-cupti-cu12==12.9.79 nvidia-cuda-runtime-cu12==12.9.79
13.0 nvidia-cuda-cupti==13.0.85 nvidia-cuda-runtime==13.0.96
13.2 nvidia-cuda-cupti==13.2.75 nvidia-cuda-runtime==13.2.75
VERSIONS
fi
export LIBCLANG_PATH
LIBCLANG_PATH=$(echo "$work"/venv/lib/python3*/site-packages/clang/native)
cargo run --quiet --release --locked --manifest-path "$here/generate/Cargo.toml" -- \
    "$here/src/bindings.rs" "$work/13.5" "${older[@]}"
echo "wrote $here/src/bindings.rs"
