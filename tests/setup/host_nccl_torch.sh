#!/usr/bin/env bash
# Prints a Python whose PyTorch for CUDA runs on the real NCCL without a GPU (tests/host-nccl). It builds what is missing.
# If PyTorch or NCCL's sources are missing, it reports so and prints nothing.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
python=$("$here/python.sh" wheel)
exec "$here/host_nccl.sh" --torch "$python"
