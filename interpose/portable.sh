#!/usr/bin/env bash
# Builds the librankscope.so for releases: one binary for every glibc from 2.28 on (RHEL 8, Ubuntu 20.04, Debian 10).
#
# A library that is built on a new system requires that system's symbol versions. If they are missing, every preloaded
# process fails to start. The linker therefore gets the symbols of glibc 2.28, from the stubs that zig contains. Linking
# itself is done by gcc: zig would link its own unwinder into the library, and the first C++ exception of Gloo through
# one of its frames would crash the job. The checks below are: highest version, libgcc_s needed, no unwinder inside.
#
#   interpose/portable.sh [OUTPUT DIRECTORY]      default: target/portable
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=${1:-target/portable}
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rankscope
floor=2.28
mkdir -p "$out" "$cache"

if [ ! -x "$cache/zig/bin/python" ]; then
  echo "portable: installing ziglang from PyPI (about 100 MB) into $cache/zig" >&2
  python3 -m venv "$cache/zig"
  "$cache/zig/bin/python" -m pip install --quiet ziglang
fi

stubs=$cache/glibc-$floor-stubs
if [ ! -e "$stubs/libc.so" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  echo 'int nothing(void) { return 0; }' >"$work/nothing.c"
  ZIG_GLOBAL_CACHE_DIR=$work/cache "$cache/zig/bin/python" -m ziglang cc -target "x86_64-linux-gnu.$floor" \
    -shared -o "$work/nothing.so" "$work/nothing.c" -lpthread -ldl -lm
  mkdir -p "$stubs"
  cp "$work"/cache/o/*/lib*.so.* "$stubs/"
  for name in libm:6 libdl:2 libpthread:0 librt:1 libutil:1 libc:6; do
    ln -sf "${name%:*}.so.${name#*:}" "$stubs/${name%:*}.so"
  done
fi

RUSTFLAGS="-C link-arg=-L$stubs -C link-arg=-Wl,--allow-shlib-undefined ${RUSTFLAGS:-}" \
  cargo build --locked --release --target x86_64-unknown-linux-gnu --target-dir target/portable-build -p rankscope-interpose
library=target/portable-build/x86_64-unknown-linux-gnu/release/librankscope.so
strip --strip-debug -o "$out/librankscope.so" "$library"

highest=$(objdump -T "$out/librankscope.so" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
if [ "$(printf '%s\n' "GLIBC_$floor" "$highest" | sort -V | tail -n 1)" != "GLIBC_$floor" ]; then
  echo "portable: $out/librankscope.so asks for $highest, above GLIBC_$floor" >&2
  exit 1
fi
if ! readelf -d "$out/librankscope.so" | grep -q 'NEEDED.*libgcc_s.so.1'; then
  echo "portable: libgcc_s.so.1 is not needed: another unwinder has been linked in" >&2
  exit 1
fi
if nm "$library" | grep -q ' [Tt] _Unwind_RaiseException'; then
  echo "portable: an unwinder has been linked in" >&2
  exit 1
fi
echo "portable: $out/librankscope.so, $(stat -c %s "$out/librankscope.so") bytes, highest symbol $highest"
