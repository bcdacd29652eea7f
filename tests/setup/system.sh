#!/usr/bin/env bash
# Installs the missing system packages that the tests need. Needs Debian or Ubuntu and root. Otherwise it reports what
# is missing.
set -euo pipefail
. "$(dirname "${BASH_SOURCE[0]}")/say.sh"

missing=()
# want PACKAGE CHECK...: the package is needed if the check fails.
want() {
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}

want gcc command -v cc
want g++ command -v c++
want make command -v make
want perl command -v perl
want git command -v git
want jq command -v jq
want nodejs command -v node
want npm command -v npm
want chromium sh -c 'command -v chromium || command -v chromium-browser || command -v google-chrome'
want default-jre-headless command -v java
want xvfb command -v Xvfb
want xdotool command -v xdotool
want tmux command -v tmux
want libgl1-mesa-dri test -n "$(find /usr/lib -name swrast_dri.so -print -quit 2>/dev/null)"
want libgl1 sh -c 'ldconfig -p | grep -q libGL.so.1'
want libegl1 sh -c 'ldconfig -p | grep -q libEGL.so.1'
want libxkbcommon-x11-0 sh -c 'ldconfig -p | grep -q libxkbcommon-x11.so.0'
want libxcursor1 sh -c 'ldconfig -p | grep -q libXcursor.so.1'
want libxi6 sh -c 'ldconfig -p | grep -q libXi.so.6'
want libc6-dev test -n "$(find /usr/lib -name libc.a -print -quit 2>/dev/null)"
want libgloo-dev test -e /usr/include/gloo/config.h
want python3-torch test -d /usr/lib/python3/dist-packages/torch
want python3-numpy test -d /usr/lib/python3/dist-packages/numpy
want python3-venv python3 -c 'import venv, ensurepip'

# A test compiles the layer for another processor. It leaves that out if the toolchain cannot be extended.
other=aarch64-unknown-linux-gnu
if [ ! -d "$(rustc --print target-libdir --target "$other" 2>/dev/null)" ]; then
    say "installing Rust's library for $other"
    timeout 120 rustup target add "$other" >&2 || say "not available: $other"
fi

if [ ${#missing[@]} -eq 0 ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null; then
    skip "no apt-get here; please install the counterparts of: ${missing[*]}"
elif [ "$(id -u)" != 0 ]; then
    skip "not root; please run: apt-get install ${missing[*]}"
else
    say "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get -qq update >&2
    apt-get -qq install --yes --no-install-recommends "${missing[@]}" >&2
fi
