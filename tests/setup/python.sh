#!/usr/bin/env bash
# Prints a Python that has PyTorch with Gloo.
#
#   python.sh any      any available one, for the demo; installs one if there is none
#   python.sh wheel    the current wheel; installed if missing, in ${XDG_CACHE_HOME:-~/.cache}/rankscope/torch
#   python.sh debian   Debian's python3-torch, a different PyTorch with a different Gloo; system.sh installs it
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/say.sh"
root=$(cd "$here/../.." && pwd)
wheel=${XDG_CACHE_HOME:-$HOME/.cache}/rankscope/torch

has_torch() {
    # From /, so that a folder named torch in the current directory is not imported.
    [ -n "$1" ] && (cd / && "$1" -c 'import torch.distributed as d; d.ProcessGroupGloo') >/dev/null 2>&1
}

make_wheel() {
    mkdir -p "$(dirname "$wheel")"
    # One process at a time: the second one finds the result of the first.
    exec 9>"$wheel.lock"
    flock 9
    if has_torch "$wheel/bin/python"; then
        return
    fi
    say "no Python with PyTorch found; installing it in $wheel (about 6 GB of disk, some minutes)"
    local free
    free=$(df --output=avail -k "$(dirname "$wheel")" | tail -1)
    if [ "$free" -lt $((7 * 1024 * 1024)) ]; then
        say "only $((free / 1024)) MiB are free there: set XDG_CACHE_HOME to a larger disk, or RANKSCOPE_PYTHON to a Python with PyTorch"
        exit 1
    fi
    if ! python3 -m venv "$wheel" >&2; then
        say "python3 -m venv failed: install python3 with its venv module (Debian: python3-venv)"
        exit 1
    fi
    "$wheel/bin/python" -m pip install --quiet --disable-pip-version-check torch numpy >&2
    if ! has_torch "$wheel/bin/python"; then
        say "the PyTorch just installed in $wheel does not start:"
        "$wheel/bin/python" -c 'import torch.distributed as d; d.ProcessGroupGloo' >&2
        exit 1
    fi
}

case ${1:-any} in
any)
    if [ -n "${RANKSCOPE_PYTHON:-}" ] && ! has_torch "$RANKSCOPE_PYTHON"; then
        say "RANKSCOPE_PYTHON=$RANKSCOPE_PYTHON has no PyTorch with Gloo"
        exit 1
    fi
    for python in "${RANKSCOPE_PYTHON:-}" "$root/.venv/bin/python" "$wheel/bin/python" \
        "$(command -v python3 || true)" /usr/bin/python3; do
        if has_torch "$python"; then
            echo "$python"
            exit 0
        fi
    done
    make_wheel
    echo "$wheel/bin/python"
    ;;
wheel)
    make_wheel
    echo "$wheel/bin/python"
    ;;
debian)
    if has_torch /usr/bin/python3; then
        echo /usr/bin/python3
    else
        skip "/usr/bin/python3 has no PyTorch (Debian: python3-torch)"
    fi
    ;;
*)
    say "usage: python.sh any|wheel|debian"
    exit 2
    ;;
esac
