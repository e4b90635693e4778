#!/usr/bin/env bash
# A sealed program that knows no operator runs OpenCL code from a pack on plain NumPy files. usage: BUILD
set -euo pipefail
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export OPFORGE_CACHE_DIR=$folder/cache OPFORGE_CONFIG_DIR=$folder/config OPFORGE_STATE_DIR=$folder/state
if ! "$build"/cli/opforge doctor | grep '^opencl:0 .*pocl' >/dev/null; then
  echo "skipped: no PoCL device is here (Debian: pocl-opencl-icd)"
  exit 77
fi
pack=$folder/opencl.ofpack
key=$("$build"/cli/opforge build elementwise.copy --from-cases --backend opencl --dtype f32 --target opencl:pocl -o "$pack" \
  --expected "$folder/expected" --quiet | grep -oE '[0-9a-f]{64}' | tail -1)
"$build"/examples/host_only/example_host_only "$pack" "$key" "$folder/expected" opencl | tee "$folder/out"
grep -q ' 0 failed' "$folder/out"
grep -q 'opencl:pocl' "$folder/out"
