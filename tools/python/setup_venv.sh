#!/usr/bin/env bash
# Makes <build>/venv with tools/python/requirements.txt, once for each version of that file. Where the packages cannot be had
# (no network, no venv module, no headers) it says why in <build>/venv.reason and succeeds: the Python part is then left out.
set -uo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
python=${PYTHON:-/usr/bin/python3}
mkdir -p "$build"
wanted=$(sha256sum tools/python/requirements.txt | cut -d' ' -f1)
ready=$build/venv/.ready
[[ -f $ready && $(<"$ready") == "$wanted" ]] && exit 0
give_up() {
  echo "$1" >"$build/venv.reason"
  echo "the Python package is left out: $1"
  rm -rf "$build/venv"
  exit 0
}
# A failure is not tried again within the hour: `make test` without a network would wait each time.
[[ -f $build/venv.reason && -n $(find "$build/venv.reason" -mmin -60) ]] && exit 0
rm -rf "$build/venv" "$build/venv.reason"
command -v "$python" >/dev/null || give_up "there is no $python"
header=$("$python" -c 'import os, sysconfig; print(os.path.join(sysconfig.get_path("include"), "Python.h"))') || give_up "$python does not run"
[[ -f $header ]] || give_up "$header is missing (Debian: python3-dev)"
"$python" -m venv "$build/venv" >"$build/venv.log" 2>&1 || give_up "$python -m venv failed (Debian: python3-venv); see $build/venv.log"
timeout 300 "$build/venv/bin/pip" install --quiet --disable-pip-version-check --retries 1 --timeout 20 -r tools/python/requirements.txt >>"$build/venv.log" 2>&1 ||
  give_up "pip could not install tools/python/requirements.txt; see $build/venv.log"
echo "$wanted" >"$ready"
