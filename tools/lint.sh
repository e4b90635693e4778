#!/usr/bin/env bash
# Layer rules and header self-containment of the whole tree; clang-format and clang-tidy on the files changed since a base
# revision (kernels of ops/ and backends/ aside: their mutants are found by their text).
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
base=${2:-HEAD~1}
failed=0
python3 tools/check_layers.py || failed=1
python3 tools/check_mutants.py || failed=1
tools/check_headers.sh "$build" || failed=1
format=$(command -v clang-format-14 || command -v clang-format)
git diff --name-only --diff-filter=d "$base" -- 'src/*.cc' 'src/*.hpp' 'cli/*.cc' 'cli/*.hpp' 'python/*.cc' 'python/*.hpp' | xargs -r "$format" --dry-run -Werror || failed=1
tidy=$(command -v clang-tidy-14 || command -v clang-tidy)
changed=$(git diff --name-only --diff-filter=d "$base" -- 'src/*.cc' 'cli/*.cc' 2>/dev/null | head -40)
if [[ -n "$changed" && -f "$build/compile_commands.json" ]]; then
  # The compile commands are those of g++, whose warning options clang does not all know.
  $tidy -p "$build" --quiet --extra-arg=-Wno-unknown-warning-option $changed 2>/dev/null || failed=1
fi
exit $failed
