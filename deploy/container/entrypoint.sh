#!/bin/sh
# Entry point of the container: `memrelay COMMAND`, after three preparations.
#
# - `{BUS_PASSWORD}` in MEMRELAY_BUS__URL and `{STORAGE_PASSWORD}` in MEMRELAY_STORAGE__URL become the
#   values of these variables, percent-encoded. So a password may have any characters.
# - `up` and `web` listen on all addresses, which requires a key. If no key exists, a first one for
#   everything is created and written to FIRST_KEY_FILE. An empty FIRST_KEY_FILE turns this off.
# - `check-health` is the health check of a container that serves HTTP.
set -eu

# put_in PASSWORD URL: print the URL with the password in place of {...}
put_in() {
    python3 - "$1" "$2" <<'PYTHON'
import re
import sys
from urllib.parse import quote

print(re.sub(r"\{[A-Z_]+\}", lambda match: quote(sys.argv[1], safe=""), sys.argv[2]))
PYTHON
}

case "${MEMRELAY_BUS__URL:-}" in *'{BUS_PASSWORD}'*)
    MEMRELAY_BUS__URL=$(put_in "${BUS_PASSWORD:?is in MEMRELAY_BUS__URL}" "$MEMRELAY_BUS__URL")
    export MEMRELAY_BUS__URL
    ;;
esac
case "${MEMRELAY_STORAGE__URL:-}" in *'{STORAGE_PASSWORD}'*)
    MEMRELAY_STORAGE__URL=$(put_in "${STORAGE_PASSWORD:?is in MEMRELAY_STORAGE__URL}" "$MEMRELAY_STORAGE__URL")
    export MEMRELAY_STORAGE__URL
    ;;
esac

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
