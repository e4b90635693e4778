#!/usr/bin/env bash
# Compiles every header of src/ and include/ alone: a header that does not stand on its own fails.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}
flags="-std=c++20 -fsyntax-only -Isrc -Iinclude -I. -I$build/generated -Wall -Wextra -Wno-pragma-once-outside-header"
failed=0
count=0
while read -r header; do
  count=$((count + 1))
  g++ $flags -x c++ "$header" || { echo "not self-contained: $header"; failed=$((failed + 1)); }
done < <(find src include -name '*.hpp' | sort)
while read -r header; do
  count=$((count + 1))
  gcc -std=c99 -pedantic -Werror -fsyntax-only -Iinclude -x c "$header" || { echo "not self-contained C99: $header"; failed=$((failed + 1)); }
done < <(find include -name '*.h' | sort)
echo "headers: $count checked, $failed failed"
((failed == 0))
