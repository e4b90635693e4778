#!/usr/bin/env bash
# Runs the tests of a build folder and prints, last, one line: N passed, N failed, N skipped. Skipped tests are listed with their
# reasons. Without `all`: the conformance suite with f32 only and without cells named _long, every sixteenth mutant, and no test
# labelled `long`.
set -uo pipefail
build=${1:-build}
limit_s=${OPFORGE_TEST_LIMIT_S:-2700}
common=(--test-dir "$build" --output-on-failure -j "$(nproc)" --timeout 300 --no-tests=error --test-output-size-passed 65536)
quick=(-LE '^long$' -E 'Mutants|(IsWhatItPromises|TheSameBits)/[a-z0-9_]+_(FAST|HIGH_PRECISION|DETERMINISTIC)_[a-eg-z]|(IsWhatItPromises|TheSameBits).*_(f16|long)')
stride=16
if [[ "${2:-}" == all ]]; then
  quick=(-E Mutants)
  stride=1
fi
# Mutants of code that cannot run here only say so: leave them out.
can_run='_cpu_'
[[ -e /dev/nvidiactl ]] && can_run='_(cpu|cuda)_'

run() {  # run <name> <ctest arguments>: output in <build>/test-<name>.{out,xml}
  local name=$1
  shift
  rm -f "$build/test-$name.xml"
  timeout -k 10 "$limit_s" ctest "${common[@]}" "$@" --output-junit "test-$name.xml" >"$build/test-$name.out" 2>&1
  local status=$?
  ((status == 124 || status == 137)) && echo "error: the tests '$name' did not end within $limit_s s; the last lines are in $build/test-$name.out"
  ((status != 0)) && grep -vE '^ *(Start|[0-9]+/[0-9]+ Test).*( Passed |Start)' "$build/test-$name.out" | tail -n 200
  return $status
}
status=0
run main "${quick[@]}" || status=1
# The sample goes by names, so that tests elsewhere do not change it.
mutants=$(ctest --test-dir "$build" -N -R "Mutants.*$can_run" | python3 -c '
import re, sys, zlib
names = re.findall(r"IsFound/(\w+)", sys.stdin.read())
print("|".join(name for name in dict.fromkeys(names) if zlib.crc32(name.encode()) % int(sys.argv[1]) == 0))' "$stride")
run mutants -R "Mutants.IsFound/($mutants)( |\$)" || status=1
python3 tools/test_report.py "$build/test-main.xml" "$build/test-mutants.xml" || status=1
exit $status
