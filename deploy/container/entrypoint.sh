#!/bin/sh
# Entry point of the container: `memrelay COMMAND`, after two preparations.
#
# - `up` and `web` listen on all addresses, which requires a key. If no key exists, a first one for
#   everything is created and written to FIRST_KEY_FILE. An empty FIRST_KEY_FILE turns this off.
# - `check-health` is the health check of a container that serves HTTP.
set -eu

case "${1:-up}" in
check-health)
    exec python3 - "${MEMRELAY_WEB__PORT:-8765}" <<'PYTHON'
import sys
from urllib.request import urlopen

urlopen(f"http://127.0.0.1:{sys.argv[1]}/ready", timeout=4).read()
PYTHON
    ;;
up | web)
    if [ -n "${FIRST_KEY_FILE:-}" ] && [ ! -s "$FIRST_KEY_FILE" ]; then
        umask 077
        draft=$(mktemp "$FIRST_KEY_FILE.XXXXXX")
        memrelay keys create first --if-none --pipeline '*' \
            --scope deploy,publish,search,read,write,append,delete,admin >"$draft"
        if [ -s "$draft" ]; then
            mv "$draft" "$FIRST_KEY_FILE"
            echo "memrelay: the first key, for everything, is in $FIRST_KEY_FILE" >&2
        else
            rm "$draft"
        fi
    fi
    ;;
esac
exec memrelay "$@"
