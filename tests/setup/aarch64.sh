#!/usr/bin/env bash
# Prints the folder of a Debian system for aarch64 that runs on this machine under qemu-user. Makes it if it is missing
# (1.5 GB, some minutes): its packages are extracted, not configured. Also installs the cross compiler. Needs Debian and
# root.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/say.sh"

cache=${XDG_CACHE_HOME:-$HOME/.cache}/rankscope/aarch64
root=$cache/root
registered=/proc/sys/fs/binfmt_misc/rankscope-aarch64

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    skip "aarch64: needs Debian or Ubuntu, and root"
    exit 0
fi
missing=()
for want in qemu-user-static:qemu-aarch64-static g++-aarch64-linux-gnu:aarch64-linux-gnu-g++ mmdebstrap:mmdebstrap; do
    command -v "${want#*:}" >/dev/null || missing+=("${want%:*}")
done
if [ ${#missing[@]} -gt 0 ]; then
    say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update >&2
    apt-get -qq install --yes --no-install-recommends "${missing[@]}" >&2
fi
rustup target add aarch64-unknown-linux-gnu >&2

# The kernel starts programs of aarch64 with the emulator. F: it opens the emulator now, so it works in a chroot too.
# P: programs see their own first argument.
if [ ! -e "$registered" ]; then
    mountpoint -q /proc/sys/fs/binfmt_misc || mount -t binfmt_misc binfmt_misc /proc/sys/fs/binfmt_misc
    magic='\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00'
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    printf '%s' ":rankscope-aarch64:M::$magic:$mask:$(command -v qemu-aarch64-static):PF" >/proc/sys/fs/binfmt_misc/register
fi

if [ ! -e "$root/complete" ]; then
    say "making a Debian system for aarch64 in $root"
    if grep -q " $root/" /proc/self/mounts; then
        say "something is mounted in $root; unmount it first"
        exit 1
    fi
    rm -rf "$root"
    mkdir -p "$cache"
    mmdebstrap --quiet --variant=extract --architectures=arm64 \
        --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr \
        --include=bash,coreutils,findutils,grep,sed,gawk,procps,util-linux,base-passwd,libc-bin,ca-certificates,g++,libgloo-dev,python3,python3-numpy,python3-torch \
        bookworm "$root" >&2
    cp "$root/usr/share/base-passwd/passwd.master" "$root/etc/passwd"
    cp "$root/usr/share/base-passwd/group.master" "$root/etc/group"
    for link in c++:g++ cc:gcc awk:gawk; do
        ln -sf "${link#*:}" "$root/usr/bin/${link%:*}"
    done
    # What dpkg's alternatives would choose.
    for library in blas lapack; do
        echo "/usr/lib/aarch64-linux-gnu/$library" >>"$root/etc/ld.so.conf.d/zz-$library.conf"
    done
    chroot "$root" /sbin/ldconfig
    chroot "$root" /usr/bin/python3 -c 'import torch.distributed' >&2
    touch "$root/complete"
fi
echo "$root"
