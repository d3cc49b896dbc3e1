#!/bin/sh
# Runs a command with what secret files hold: for each variable NAME_FILE named below, NAME is the file's content. So a
# password is in no image, no compose file and no list of processes.
set -eu
for name in PGPASSWORD WINDLASS_URL; do
  eval "file=\${${name}_FILE:-}"
  if [ -n "$file" ]; then
    content=$(cat "$file")  # without the line's end
    export "$name=$content"
    unset "${name}_FILE"
  fi
done
exec "$@"
