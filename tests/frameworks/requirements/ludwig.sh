#!/usr/bin/env bash
# Removes the compiled part of torchaudio: ludwig.sh PYTHON. Ludwig imports torchaudio, which refuses a PyTorch that was built for
# another CUDA version. A table of numbers needs no audio.
set -euo pipefail
"$1" - <<'PYTHON'
import importlib.util
import pathlib

for place in importlib.util.find_spec("torchaudio").submodule_search_locations:
    for file in (pathlib.Path(place) / "lib").glob("_torchaudio*.so"):
        file.unlink()
PYTHON
