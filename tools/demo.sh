#!/usr/bin/env bash
# The main job on the CPU, as a user would type it: verify, tune, build a signed pack, run it sealed in a program that knows no
# operator, show tables. Everything it writes lies under <build>/demo.
set -euo pipefail
build=$(cd "${1:-build}" && pwd)
here=$build/demo
rm -rf "$here" && mkdir -p "$here"
export OPFORGE_CACHE_DIR=$here/cache OPFORGE_STATE_DIR=$here/state OPFORGE_CONFIG_DIR=$here/config
opforge=$build/cli/opforge
step() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }
say() { step "opforge $*"; "$opforge" "$@"; }
cd "$here"

say verify reduction.softmax --backend cpu --dtype f32 --quiet
say tune reduction.softmax --shape M=64,N=1024 --dtype f32 --budget 4 --no-prove --quiet
say build reduction.softmax --from-cases --dtype f32 --backend cpu,reference --target native -o demo.ofpack --expected expected --quiet
say pack verify demo.ofpack
key=$("$opforge" pack inspect demo.ofpack --json | python3 -c 'import json,sys; print(json.load(sys.stdin)["signer"])')

step "env -i example_host_only demo.ofpack ${key:0:16}... expected     # sealed: no compiler, no HOME, no PATH"
env -i "$build/examples/host_only/example_host_only" "$here/demo.ofpack" "$key" "$here/expected" | tail -n 12

say explain reduction.softmax --pack demo.ofpack --shape M=512,N=1024 --dtype f32 --contract FAST
say bench reduction.softmax --pack demo.ofpack --shape M=4096,N=4096 --dtype f32 --rounds 5 --quiet
printf '\nThe pack is %s; sources, keys and caches of this demo are under %s\n' "$here/demo.ofpack" "$here"
