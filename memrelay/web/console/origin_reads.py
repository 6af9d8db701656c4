"""Where the states of a record came from, for callers with scope `admin`."""

from typing import Any

from aiohttp import web

from memrelay.web.auth.access import get_caller
from memrelay.web.console.calls import Call, ask
from memrelay.web.console.receipt_reads import as_entry
from memrelay.web.console.record_reads import RecordRef

SHOWN_STATES = 10
CHANGES = {"create": "created", "update": "edited", "append": "text appended"}
CHANGES |= {"delete": "deleted", "restore": "restored", "": "made"}


async def read_origins(request: web.Request, ref: RecordRef) -> list[dict[str, Any]]:
    """Return the origins of the latest states of a record."""
    if "admin" not in get_caller(request).scopes:
        return []
    call = Call("records.origin", {"guid": ref.guid, "limit": SHOWN_STATES}, ref.store)
    (answer,) = await ask(request, ref.uid, call)
    items = answer.output["items"] if answer.output else []
    return [
        one | {"entry": as_entry(one["message"]), "done": CHANGES[one["change"]]} for one in items
    ]
