#!/usr/bin/env bash
# build_pack.sh OPFORGE FOLDER OUTPUT TARGETS DTYPES: all operators' declared cases for the CPU into OUTPUT.ofpack, and the public
# key of this build into OUTPUT.pub. FOLDER keeps the store, so that a second build compiles only what has changed.
set -euo pipefail
opforge=$1 folder=$2 output=$3 targets=$4 dtypes=$5
mkdir -p "$folder"
export OPFORGE_CACHE_DIR=$folder/cache OPFORGE_STATE_DIR=$folder/state OPFORGE_CONFIG_DIR=$folder/config
"$opforge" build --from-cases --backend cpu --target "$targets" --dtype "$dtypes" --no-records -o "$output.ofpack" --quiet --json="$folder/report.json" >/dev/null
python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["pack"]["signer"])' "$folder/report.json" >"$output.pub"
