#!/usr/bin/env bash
# Records the demo's training with the `rankscope` on the PATH, and checks that the report names the slow rank:
#
#   PATH=/opt/try/bin:$PATH packaging/try_installed.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
RANKSCOPE=$(command -v rankscope) SLOW=2 RANKSCOPE_PYTHON=$(command -v python3) examples/ddp/demo.sh "$work/run"
cd /
python3 - "$work/run" <<'CHECK'
import sys

import rankscope

late = [finding for finding in rankscope.open(sys.argv[1]).findings if finding.kind == "late-rank"]
sys.exit(0 if [finding.ranks for finding in late] == [[2]] else f"the report does not name rank 2 alone: {late}")
CHECK
echo "The installed rankscope named the slow rank."
