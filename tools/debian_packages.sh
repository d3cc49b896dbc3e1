#!/usr/bin/env bash
# The programs that tests need from Debian: a browser, curl and jq for `make test`, the others for `make test-all` and `make faults`.
# Installs what is missing of those named, or of all; does nothing where they are installed.
set -euo pipefail
PATH="$PATH:/usr/sbin"

missing=()
declare -A package=([kubectl]=kubernetes-client [systemd-analyze]=systemd)  # of others: its name
for program in "${@:-chromium curl jq pgbouncer faketime kubectl systemd-analyze}"; do
  for name in $program; do
    if [ "$name" = chromium ] && [ -n "${CHROMIUM:-}" ]; then continue; fi
    command -v "$name" >/dev/null || missing+=("${package[$name]:-$name}")
  done
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
