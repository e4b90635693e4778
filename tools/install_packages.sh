#!/usr/bin/env bash
# Installs what tools/packages.txt lists and is missing here. Needs apt-get and root (or sudo) only if something is missing.
set -euo pipefail
cd "$(dirname "$0")"
missing=()
while read -r name; do
  [[ -z "$name" || "$name" == \#* ]] && continue
  dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed || missing+=("$name")
done < packages.txt
((${#missing[@]} == 0)) && exit 0
echo "installing: ${missing[*]}"
sudo=""
if [[ $(id -u) != 0 ]]; then
  command -v sudo >/dev/null || {
    echo "error: these Debian packages are missing: ${missing[*]}; install them as root (no sudo here)" >&2
    exit 1
  }
  sudo=sudo
fi
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
$sudo apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
