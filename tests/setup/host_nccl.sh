#!/usr/bin/env bash
# Prints the directories of real NCCL libraries that run without a GPU (tests/host-nccl), one per version. Builds missing
# ones into ${XDG_CACHE_HOME:-~/.cache}/rankscope/host-nccl, from NCCL's sources. A version takes two minutes on two cores.
#
# The sources are not part of the project, and this script does not fetch them. If they are missing, it reports so and
# prints no directory. That is not a skip: CI accepts it.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/say.sh"

messages=$(mktemp)
trap 'rm -f "$messages"' EXIT
status=0
python3 "$here/../host-nccl/build/build.py" "$@" 2>"$messages" || status=$?
while IFS= read -r line; do
    case $line in
        missing:*) say "real NCCL without a GPU is not tested here: ${line#missing: }" ;;
        *) echo "$line" >&2 ;;
    esac
done <"$messages"
exit "$status"
