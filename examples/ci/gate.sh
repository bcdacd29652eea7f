#!/usr/bin/env bash
# Fails if the working tree trains or communicates worse than a revision:
#
#     gate.sh REVISION COMMAND…      for example: gate.sh origin/main torchrun --nproc-per-node 2 train.py
#
# It records COMMAND in a checkout of REVISION and in the working tree, in turns, and compares. Results are in rankscope-compare/.
# Exit status: 0 fine, 1 a regression, 2 something could not be run, 3 inconclusive.
#
#     REPEAT=5            runs of each
#     FAIL_ON="…"         limits, separated by spaces; without any those of rankscope.toml, else the default ones
#     RANKSCOPE=rankscope the program
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
revision=$1
shift
rankscope=${RANKSCOPE:-rankscope}
output=${OUTPUT:-rankscope-compare}

base=$(mktemp -d)
trap 'git worktree remove --force "$base" 2>/dev/null; rm -rf "$base"' EXIT
git worktree add --quiet --detach "$base" "$revision" || exit 2
rm -rf "$output"
mkdir -p "$output"

# A command as a shell reads it again.
command=$(printf '%q ' "$@")
status=0
"$rankscope" run --repeat "${REPEAT:-5}" --against "cd $(printf %q "$base") && exec $command" -o "$output/runs" -- "$@" || status=$?
# The job failed: there is nothing to judge.
[ -d "$output/runs/new" ] && [ "$status" -ne 2 ] || exit "$((status ? status : 2))"

limits=()
for limit in ${FAIL_ON:-}; do
    limits+=(--fail-on "$limit")
done
"$rankscope" compare "${limits[@]}" --markdown "$output/comment.md" --html "$output/page.html" --junit "$output/gate.xml" \
    "$output/runs/base" -- "$output/runs/new"
