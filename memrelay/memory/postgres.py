"""What the control plane and the journals share about their PostgreSQL database."""

from typing import Any

import psycopg

SCHEMA = "memrelay"
CONNECT_TIMEOUT_S = 5
# After this silence, a connection counts as broken.
SILENCE_MS = 7500
# Arguments of every connection.
OPTIONS: dict[str, Any] = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "tcp_user_timeout": SILENCE_MS,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 2,
    "application_name": "memrelay",
}
# Ends the transactions of a host that was paused or cut off, whose locks would stop the others.
END_SILENT_TRANSACTIONS = f"SET idle_in_transaction_session_timeout = {SILENCE_MS}"


def describe(error: psycopg.Error) -> str:
    """Return the reason of an error in one line, without the statement and its values.

    It is "" if there is none, as after a connection that timed out.
    """
    reason = error.diag.message_primary
    if reason:
        return f"{reason} (SQLSTATE {error.sqlstate})"
    return " ".join(str(error).split())
