#!/usr/bin/env bash
# Builds Horovod 0.28.1, its last release, for the installed PyTorch: horovod.sh PYTHON. It takes five minutes of one core.
#
# PyTorch 2.12 and later need C++20. Horovod sets C++14, and its minimum version of CMake is too old for CMake 4.
set -euo pipefail
python=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m pip download --quiet --no-deps --no-binary horovod --no-build-isolation -d "$work" horovod==0.28.1
tar -xzf "$work"/horovod-0.28.1.tar.gz -C "$work"
cd "$work/horovod-0.28.1"
sed -i 's/set(CMAKE_CXX_STANDARD 14)/set(CMAKE_CXX_STANDARD 20)/' CMakeLists.txt horovod/torch/CMakeLists.txt
PATH=$(dirname "$python"):$PATH CMAKE_POLICY_VERSION_MINIMUM=3.5 HOROVOD_CPU_OPERATIONS=GLOO HOROVOD_WITH_PYTORCH=1 \
  HOROVOD_WITH_GLOO=1 HOROVOD_WITHOUT_MPI=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1 \
  "$python" -m pip install --quiet --no-build-isolation --no-deps .
