#!/usr/bin/env bash
# Installs a build folder into an empty prefix, moves that prefix, and uses it from outside: the shell in an empty environment,
# a C program and a plug-in with its tests, each built through find_package(opforge). Usage: install_test.sh <source> <build>
set -euo pipefail
source=$1
build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { echo "== $*"; }
# No grep -q after a pipe: it ends early, and the program before it then ends by SIGPIPE.
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

say install
cmake --install "$build" --prefix "$work/first" >"$work/install.log"
mv "$work/first" "$work/root" # nothing in it may know where it was
root=$work/root
for file in bin/opforge lib/libopforge.so lib/libopforge-forge.a include/opforge/opforge.h include/opforge-forge/operator/operator.hpp \
  include/opforge-forge/base/version.hpp lib/cmake/opforge/opforgeConfig.cmake share/opforge/backends/cpu/include/opforge_cpu.hpp \
  share/opforge/src/operator/reference.hpp share/opforge/ops/reduction/softmax/cpu.cc; do
  [ -e "$root/$file" ] || fail "$file was not installed"
done

say "the shell, in an empty environment"
env -i "$root/bin/opforge" --version
env -i "$root/bin/opforge" ops | grep reduction.softmax >/dev/null || fail "opforge ops does not list softmax"

say "a C program"
cmake -S "$source/tests/install/consumer" -B "$work/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$root" >"$work/consumer.log" || {
  cat "$work/consumer.log"
  fail "find_package(opforge) for C"
}
cmake --build "$work/consumer" -- --quiet
"$work/consumer/consumer"

say "a plug-in and every generic suite over it"
cmake -S "$source/examples/plugin" -B "$work/plugin" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$root" >"$work/plugin.log" || {
  cat "$work/plugin.log"
  fail "find_package(opforge COMPONENTS forge)"
}
cmake --build "$work/plugin" -- --quiet
"$work/plugin/test_myteam" "$work/plugin/myteam.so"

say "the shell with the plug-in: named, by variable, installed"
! "$root/bin/opforge" ops | grep myteam.hardswish >/dev/null || fail "the plug-in is there before it was named"
"$root/bin/opforge" ops --plugin "$work/plugin/myteam.so" | grep myteam.hardswish >/dev/null || fail "--plugin"
OPFORGE_PLUGINS=$work/plugin/myteam.so "$root/bin/opforge" ops | grep myteam.hardswish >/dev/null || fail "OPFORGE_PLUGINS"
cmake --install "$work/plugin" --prefix "$root" >/dev/null
"$root/bin/opforge" ops | grep myteam.hardswish >/dev/null || fail "the installed plug-in is not found"
say "all of it works"
