#!/usr/bin/env bash
# Fails if the working tree trains or communicates worse than a revision:
#
#     gate.sh REVISION COMMAND…      for example: gate.sh origin/main torchrun --nproc-per-node 2 train.py
#
# It records COMMAND alternately in a checkout of REVISION and in the working tree, and compares the runs.
# Results are in rankscope-compare/. Exit status: 0 fine, 1 a regression, 2 a command failed to run, 3 inconclusive.
#
#     REPEAT=5            runs of each side
#     FAIL_ON="…"         limits, separated by spaces; default: those of rankscope.toml, else the built-in ones
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

# Both sides run in the same folder of their checkout, by the same shell. Commands are passed in variables, so that
# nothing is quoted twice.
GATE_BASE=$checkout/$(git rev-parse --show-prefix)
GATE_COMMAND=$(printf '%q ' "$@")
export GATE_BASE GATE_COMMAND
# Any failure here is one of the job. The result of the comparison is judged below.
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
