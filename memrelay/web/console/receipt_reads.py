"""Which answers used a record, and what an answer was based on, for callers with scope `admin`."""

import re
from typing import Any, NamedTuple

from aiohttp import web

from memrelay.web.auth.access import get_caller
from memrelay.web.console.calls import Call, ask
from memrelay.web.console.record_reads import RecordRef
from memrelay.web.console.search_hits import record_url

# Uses that are counted, and that are shown. A page counts further ones as `100+`.
MAX_USES, SHOWN_USES = 100, 10
# Receipts of one message, and records of one receipt.
MAX_RECEIPTS, SHOWN_RECORDS = 20, 10
# A message with a trace. A caller may have named anything else.
ENTRY = re.compile(r"[0-9]{1,20}-[0-9]{1,20}", re.ASCII)
Json = dict[str, Any]


class Uses(NamedTuple):
    """The newest uses of a record, how many there are, and whether there are more."""

    items: tuple[Json, ...] = ()
    total: int = 0
    has_more: bool = False


async def read_uses(request: web.Request, ref: RecordRef) -> Uses:
    """Return which answers used a record."""
    if "admin" not in get_caller(request).scopes:
        return Uses()
    given = {"guid": ref.guid, "limit": MAX_USES}
    (answer,) = await ask(request, ref.uid, Call("records.uses", given, ref.store))
    if answer.output is None:
        return Uses()
    items = answer.output["items"]
    shown = [one | {"entry": as_entry(one["message"])} for one in items[:SHOWN_USES]]
    return Uses(tuple(shown), len(items), answer.output["next_cursor"] is not None)


async def read_remembered(request: web.Request, uid: str, entry: str) -> list[Json]:
    """Return the receipts of the answers to a message, each with links to its records."""
    if "admin" not in get_caller(request).scopes:
        return []
    given = {"message": entry, "limit": MAX_RECEIPTS}
    (answer,) = await ask(request, uid, Call("receipts.list", given))
    receipts = answer.output["items"] if answer.output else []
    for receipt in receipts:
        # A recipe reads several stores.
        store = "" if receipt["operation"] == "recipes.execute" else receipt["store"]
        for one in receipt["found"]:
            one["url"] = record_url(uid, store, one["guid"])
        receipt["hidden"] = max(len(receipt["found"]) - SHOWN_RECORDS, 0) + receipt["left_out"]
        receipt["found"] = receipt["found"][:SHOWN_RECORDS]
    return [receipt for receipt in receipts if receipt["found"]]


def as_entry(message: str) -> str:
    """Return the id of a message that has a trace, or ""."""
    return message if ENTRY.fullmatch(message) else ""
