#!/usr/bin/env bash
# Runs a real training of four ranks under rankscope. One rank is slow: the job draws it and reveals it only at the end.
# SLOW=none or SLOW=2 select it instead. Usage: demo.sh DIRECTORY (default demo-run)
#
# RANKSCOPE names the program. The default is the one that `make build` makes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
directory=${1:-demo-run}
program=${RANKSCOPE:-${CARGO_TARGET_DIR:-target}/release/rankscope}
echo "rankscope: $program"

python=$(tests/setup/python.sh any)
echo "PyTorch $("$python" -c 'import torch; print(torch.__version__)') of $python"

launcher=(-m torch.distributed.run --standalone --nproc_per_node 4)
if "$python" -c 'import sys, torch; sys.exit(not (sys.version_info >= (3, 11) and torch.__version__ < "2"))'; then
    # On Python 3.11 the launcher of PyTorch 1.13 fails without a redirection. This one is for a fifth rank, which does
    # not exist.
    launcher+=(-r 4:1 -t 4:1)
fi

# The answer is outside the run directory: rankscope must find the slow rank by itself.
secret=$(mktemp -d)
trap 'rm -r "$secret"' EXIT
export DEMO_TRUTH=${DEMO_TRUTH:-$secret/slow}
# Four ranks share the cores: one thread each.
export OMP_NUM_THREADS=1

if [ "$directory" = demo-run ]; then
    # This is the directory of the last demo. For any other directory, rankscope decides whether to refuse or extend it.
    rm -rf demo-run
fi
"$program" run -o "$directory" -- "$python" "${launcher[@]}" examples/ddp/train.py
echo
case $(cat "$DEMO_TRUTH") in
none) echo "The truth: the job slowed nobody." ;;
*) echo "The truth: the job slowed rank $(cat "$DEMO_TRUTH")." ;;
esac
