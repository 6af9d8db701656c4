"""records.origin: where each state of a record came from, back to the first message."""

from dataclasses import dataclass
from functools import cache
from typing import Any

from memrelay.memory.engine.models import list_hooks, load
from memrelay.memory.engine.origins import IMPORT, TURN, Origin
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.errors import RecordNotFound
from memrelay.memory.models.provenance.changes import CREATE, Made, list_made
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.ids import input_time_ms
from memrelay.memory.records.paging import Cursor, Limit, parse_cursor
from memrelay.memory.records.view import Guid

# The time in which an answer reads what it is based on.
ANSWER_MS = 3_600_000
MAX_RECEIPTS = 20
# Bytes of a state besides its names.
STATE_BYTES = 1500
UNKNOWN = Origin("")


@dataclass(frozen=True, slots=True)
class RecordOrigin:
    """The record, and the page."""

    guid: Guid
    """The guid of the record, which may be deleted."""
    limit: Limit = 50
    """The maximum number of states."""
    cursor: Cursor = ""
    """The `next_cursor` of the previous page."""


@dataclass(frozen=True, slots=True)
class StateOrigin:
    """The origin of a state. A text is empty if it does not apply or is not known."""

    number: int
    """The number of the state, as in records.history."""
    change: str
    """The kind of change: `create`, `update`, `append`, `delete` or `restore`."""
    at: Moment
    actor: str
    """The writer: the name of an agent, a key or a program."""
    sender: str
    """The `from` of the message."""
    way_in: str
    """How it came in, such as `webhook:github`, `rest`, `mcp`, `cli`, `import:<label>` or
    `turn:<id>`. Empty for a message on a swarm."""
    verdict: str
    """For a webhook: `verified` if its signature is valid, else `unverified`."""
    key: str
    """The id of the API key, or `jwt:` and the subject of a JWT."""
    agent: str
    """The alias of the agent that wrote."""
    model: str
    """The model that asked for the write."""
    message: str
    """The id of the first message that led to it."""
    receipts: tuple[str, ...]
    """The ids of the receipts of what the agent had read for it (receipts.get)."""


@dataclass(frozen=True, slots=True)
class OriginList:
    """A page of states, the latest first."""

    items: tuple[StateOrigin, ...]
    next_cursor: str | None
    total: int
    """The number of states on all pages."""


@operation("records.origin", access="admin", mutates=False)
def find_origin(tx: Transaction, request: RecordOrigin, context: Context) -> OriginList:
    """Return where each state of a record came from, the latest first.

    Raises RecordNotFound: when no state is kept.
    Raises Refused: when the cursor is invalid.
    """
    before = parse_cursor(request.cursor)
    made = list(list_made(tx, request.guid))
    if not made:
        raise RecordNotFound(f"nothing is kept of a record {request.guid[:128]!r}")
    wanted = [one for one in made if before is None or one.number < before]
    find_receipts = cache(lambda message: _find_receipts(tx, context, message))
    items: list[StateOrigin] = []
    size = 0
    for one in wanted[: request.limit]:
        item = _view(tx, one, find_receipts)
        size += STATE_BYTES + 6 * sum(map(len, (item.actor, item.sender, item.way_in, item.key)))
        if items and size > context.result_bytes:
            break
        items.append(item)
    has_more = len(items) < len(wanted)
    return OriginList(tuple(items), str(items[-1].number) if has_more else None, len(made))


def _view(tx: Transaction, made: Made, find_receipts: Any) -> StateOrigin:
    origin = tx.records.versions.origins.find(made.origin) or UNKNOWN
    message = made.input_id
    if origin.profile.startswith(TURN):
        message = origin.profile.removeprefix(TURN).partition(".")[0]
    elif origin.profile.startswith((IMPORT, "python")):
        # The guid of an import has the message of another store.
        message = message if made.change != CREATE else ""
    receipts = find_receipts(message) if message and origin.agent else ()
    at = format_time(made.at_ms) if made.at_ms else ""
    return StateOrigin(made.number, made.change, at, *origin, message, receipts)


def _find_receipts(tx: Transaction, context: Context, message: str) -> tuple[str, ...]:
    """Return the ids of the receipts of the answer to a message, in the stores of the pipeline."""
    found: list[str] = []
    at_ms = input_time_ms(message)
    for hook in list_hooks("receipt_table"):
        for _, store in context.open_existing() or ((0, tx),):
            table = store.table(load(hook))
            found += table.list_ids(context.pipeline, message, (at_ms, at_ms + ANSWER_MS))
    return tuple(sorted(found)[:MAX_RECEIPTS])
