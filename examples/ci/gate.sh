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
output=rankscope-compare

checkout=$(mktemp -d)
trap 'git worktree remove --force "$checkout" >/dev/null 2>&1 || true; rm -rf "$checkout"' EXIT
git worktree add --quiet --detach "$checkout" "$revision" || exit 2
rm -rf "$output"
mkdir -p "$output"

# Both sides run in the same folder of their checkout, by the same shell: commands travel in variables, so that nothing is quoted twice.
GATE_BASE=$checkout/$(git rev-parse --show-prefix)
GATE_COMMAND=$(printf '%q ' "$@")
export GATE_BASE GATE_COMMAND
# What the runs come to is judged below: here any failure is one of the job.
"$rankscope" run --repeat "${REPEAT:-5}" --no-merge -o "$output/runs" \
    --against 'cd "$GATE_BASE" && exec bash -c "exec $GATE_COMMAND"' -- bash -c "exec $GATE_COMMAND" || exit 2
for run in "$output"/runs/base/* "$output"/runs/new/*; do
    "$rankscope" merge --only-session "$run" >/dev/null || exit 2
done

limits=()
for limit in ${FAIL_ON:-}; do
    limits+=(--fail-on "$limit")
done
"$rankscope" compare "${limits[@]}" --markdown "$output/comment.md" --html "$output/page.html" --junit "$output/gate.xml" \
    "$output/runs/base" -- "$output/runs/new"
