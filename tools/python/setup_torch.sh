#!/usr/bin/env bash
# Installs PyTorch into <build>/venv for tests on the CPU: the wheel alone (1.4 GB on disk instead of 5.4), with stand-ins for the
# NVIDIA libraries that it wants. On a machine with a GPU install PyTorch the usual way instead.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
if [[ -e /dev/nvidiactl ]]; then
  echo "this machine has an NVIDIA GPU: use '$build/venv/bin/pip install torch' instead" >&2
  exit 1
fi
[[ -x $build/venv/bin/python ]] || { echo "there is no $build/venv: make venv" >&2; exit 1; }
"$build/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps torch==2.15.0 filelock typing-extensions sympy mpmath networkx jinja2 \
  MarkupSafe fsspec expecttest
"$build/venv/bin/python" tools/python/stub_cuda.py --all >/dev/null
"$build/venv/bin/python" -c 'import torch; print("PyTorch", torch.__version__, "for the CPU")'
