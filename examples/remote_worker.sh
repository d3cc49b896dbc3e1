#!/bin/sh
# A worker in shell, with curl and jq. It does jobs of the type in $WINDLASS_TYPE by a command, which reads the arguments as
# JSON and prints the result as JSON:
#
#   WINDLASS_SERVER=http://127.0.0.1:8420 WINDLASS_TOKEN=wl_… WINDLASS_TYPE=shout ./remote_worker.sh jq '.text | ascii_upcase'
set -eu

server="${WINDLASS_SERVER:-http://127.0.0.1:8420}/api/worker/v1"
errors=$(mktemp)
trap 'rm -f "$errors"' EXIT
trap 'exit 0' INT TERM

# The token goes in by standard input: arguments can be read by everybody on the machine.
ask() {
  printf 'header = "Authorization: Bearer %s"\n' "${WINDLASS_TOKEN:-}" |
    curl --config - --silent --show-error --fail-with-body --max-time 60 --retry 10 --retry-connrefused \
      --header 'Content-Type: application/json' --data "$2" "$server/$1"
}

while :; do
  token=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n') # new for every claim; curl repeats a claim with the same
  taken=$(ask claim "$(jq -cn --arg worker "shell:$$" --arg token "$token" --arg type "$WINDLASS_TYPE" \
    --arg queue "${WINDLASS_QUEUE:-default}" \
    '{worker_id: $worker, token: $token, types: [$type], queues: [$queue], lease: "30s"}')")
  job=$(printf '%s' "$taken" | jq -c '.jobs[0] // empty')
  if [ -z "$job" ]; then
    ask wait "$(printf '%s' "$taken" | jq -c '{timeout: 20, wake}')" >/dev/null
    continue
  fi
  lease=$(printf '%s' "$job" | jq -c '{id, token}')
  while sleep 10; do ask extend "{\"lease\": \"30s\", \"renewals\": [$lease]}" >/dev/null; done &
  renewing=$!
  if result=$(printf '%s' "$job" | jq -r '.payload | @base64d' | "$@" 2>"$errors"); then
    ended=$(printf '%s' "${result:-null}" | jq -c --argjson lease "$lease" '$lease + {outcome: "succeeded", result: .}')
  else
    ended=$(jq -cn --argjson lease "$lease" --arg exit "$?" --rawfile error "$errors" \
      '$lease + {outcome: "failed", error: $error, exit_code: ($exit | tonumber)}')
  fi
  kill "$renewing"
  ask finish "{\"ended\": [$ended]}" | jq -r '.[] | "\(.id): \(.answer), \(.state)"'
done
