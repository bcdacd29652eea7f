#!/usr/bin/env bash
# Runs a command inside the Debian system for aarch64, with the repository at its own place. Cargo calls it for each test
# program. The mounts are in a namespace of their own and end with the command.
set -euo pipefail
if [ "${1:-}" != --mounted ]; then
    exec unshare --mount --propagation private "$0" --mounted "$@"
fi
shift
root=$RANKSCOPE_AARCH64_ROOT
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
for folder in "$repository" /proc /dev /dev/shm /sys; do
    mkdir -p "$root$folder"
    mount --bind "$folder" "$root$folder"
done
# The system has its own programs, and no tools of Rust.
exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    CARGO_TARGET_DIR="$repository/target/aarch64/aarch64-unknown-linux-gnu" \
    TEST_IS_EMULATED=1 ROWS_CALLS="${ROWS_CALLS:-20000}" RUST_BACKTRACE=0 \
    bash -c 'cd "$1" && shift && exec "$@"' _ "$PWD" "$@"
