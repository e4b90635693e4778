#!/usr/bin/env bash
# Layer rules, header self-containment, clang-format on all sources, clang-tidy on the files changed since a base revision.
set -uo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
base=${2:-HEAD~1}
failed=0
python3 tools/check_layers.py || failed=1
tools/check_headers.sh "$build" || failed=1
format=$(command -v clang-format-14 || command -v clang-format)
git ls-files '*.cc' '*.hpp' '*.h' '*.cu' '*.cuh' '*.c' | grep -v third_party | xargs "$format" --dry-run -Werror || failed=1
tidy=$(command -v clang-tidy-14 || command -v clang-tidy)
changed=$(git diff --name-only --diff-filter=d "$base" -- 'src/*.cc' 'cli/*.cc' 2>/dev/null | head -40)
if [[ -n "$changed" && -f "$build/compile_commands.json" ]]; then
  $tidy -p "$build" --quiet $changed 2>/dev/null || failed=1
fi
exit $failed
