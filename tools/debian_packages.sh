#!/usr/bin/env bash
# The programs that `make test-all` and `make faults` need from Debian. Does nothing where they are installed.
set -euo pipefail
PATH="$PATH:/usr/sbin"

missing=()
for program in pgbouncer faketime; do  # each comes in a package of its name
  command -v "$program" >/dev/null || missing+=("$program")
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi

give_up() {
  echo "These tests need ${missing[*]}, and $1. Install them yourself and try again." >&2
  exit 1
}

command -v apt-get >/dev/null || give_up "there is no apt-get here"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || give_up "only root can install them (there is no sudo)"
  as_root=(sudo)
fi

apt() { "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" </dev/null; }
install() { apt install -y --no-install-recommends "${missing[@]}"; }
install || { apt update && install; } || give_up "apt-get could not install them"
