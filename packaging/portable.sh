#!/usr/bin/env bash
# Builds the files for releases: one binary of each for every glibc from 2.28 on (RHEL 8, Ubuntu 20.04, Debian 10).
#
# A file that is built on a new system requires that system's symbol versions. If a job's system lacks them, every process
# that preloads the library fails to start. The linker therefore gets the symbols of glibc 2.28, from the stubs that zig
# contains. Linking itself is done by gcc: zig would link its own unwinder into the library, and the first C++ exception of
# Gloo through one of its frames would crash the job. The checks below are: highest version, libgcc_s needed, no unwinder
# inside.
#
#   packaging/portable.sh [--machine aarch64] [--out DIRECTORY] [library program viewer sql cluster]
#
# Without arguments: all five for this machine, in target/portable. Another machine needs its cross compiler (Debian:
# g++-aarch64-linux-gnu), and its files go to target/portable-MACHINE.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
machine=$(uname -m) out= tools=
while :; do
  case ${1:-} in
    --machine) machine=$2 ;;
    --out) out=$2 ;;
    *) break ;;
  esac
  shift 2
done
if [ "$machine" = "$(uname -m)" ]; then
  out=${out:-target/portable}
else
  out=${out:-target/portable-$machine}
  tools=$machine-linux-gnu-
  export "CARGO_TARGET_${machine^^}_UNKNOWN_LINUX_GNU_LINKER=${tools}gcc"
  rustup target add "$machine-unknown-linux-gnu" >&2
fi
[ $# -gt 0 ] || set -- library program viewer sql cluster
cache=${XDG_CACHE_HOME:-$HOME/.cache}/rankscope
floor=2.28
target=$machine-unknown-linux-gnu
mkdir -p "$out" "$cache"

packages=() files=()
for part in "$@"; do
  case $part in
    library) packages+=(-p rankscope-interpose) files+=(librankscope.so) ;;
    program) packages+=(-p rankscope) files+=(rankscope) ;;
    viewer) packages+=(-p rankscope-viewer) files+=(rankscope-viewer) ;;
    sql) packages+=(-p rankscope-sql) files+=(rankscope-sql) ;;
    cluster) packages+=(-p rankscope-cluster) files+=(rankscope-cluster) ;;
    *)
      echo "portable: there is no part named $part: name library, program, viewer, sql or cluster" >&2
      exit 2
      ;;
  esac
done

if [ ! -x "$cache/zig/bin/python" ]; then
  echo "portable: installing ziglang from PyPI (about 100 MB) into $cache/zig" >&2
  python3 -m venv "$cache/zig"
  "$cache/zig/bin/python" -m pip install --quiet ziglang
fi

stubs=$cache/glibc-$floor-$machine
if [ ! -e "$stubs/complete" ]; then
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  echo 'int main(void) { return 0; }' >"$work/nothing.c"
  ZIG_GLOBAL_CACHE_DIR=$work/cache "$cache/zig/bin/python" -m ziglang cc -target "$machine-linux-gnu.$floor" \
    -o "$work/nothing" "$work/nothing.c" -lpthread -ldl -lm
  mkdir -p "$stubs"
  # Functions such as stat are not in old libraries. Programs contain them.
  cp "$work"/cache/o/*/lib*.so.* "$work"/cache/o/*/libc_nonshared.a "$stubs/"
  for name in libm:6 libdl:2 libpthread:0 librt:1 libutil:1; do
    ln -sf "${name%:*}.so.${name#*:}" "$stubs/${name%:*}.so"
  done
  echo "GROUP ( $stubs/libc.so.6 $stubs/libc_nonshared.a )" >"$stubs/libc.so"
  touch "$stubs/complete"
fi

RUSTFLAGS="-C link-arg=-L$stubs -C link-arg=-Wl,--allow-shlib-undefined ${RUSTFLAGS:-}" \
  cargo build --locked --profile dist --target "$target" --target-dir target/portable-build "${packages[@]}"

for file in "${files[@]}"; do
  built=target/portable-build/$target/dist/$file
  "${tools}strip" --strip-debug -o "$out/$file" "$built"
  highest=$("${tools}objdump" -T "$out/$file" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
  if [ "$(printf '%s\n' "GLIBC_$floor" "$highest" | sort -V | tail -n 1)" != "GLIBC_$floor" ]; then
    echo "portable: $out/$file requires $highest, above GLIBC_$floor" >&2
    exit 1
  fi
  if [ "$file" = librankscope.so ]; then
    if ! "${tools}readelf" -d "$out/$file" | grep -q 'NEEDED.*libgcc_s.so.1'; then
      echo "portable: libgcc_s.so.1 is not needed: another unwinder has been linked in" >&2
      exit 1
    fi
    if "${tools}nm" "$built" | grep -q ' [Tt] _Unwind_RaiseException'; then
      echo "portable: an unwinder has been linked in" >&2
      exit 1
    fi
  fi
  echo "portable: $out/$file, $(stat -c %s "$out/$file") bytes, highest symbol $highest"
done
