"""The operation that lists kept inputs. Replays read them with it."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.engine.idempotency import CALL_KEY_PREFIX, ProducerKey
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import LAST_MS, Moment, format_time, parse_ms
from memrelay.memory.errors import Refused
from memrelay.memory.models.inputs.packing import KeptInput
from memrelay.memory.models.inputs.table import InputTable, owner_of
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.paging import Limit

# Inputs that one call reads, at most. It may find fewer that match.
MAX_READ = 10_000
CURSOR = re.compile(r"[0-9]{1,4}\.[0-9]{1,18}\.[0-9]{1,9}", re.ASCII)
Time = Annotated[str, Field(max_length=40)]
Name = Annotated[str, Field(max_length=256)]
# Bytes of an item in JSON besides its data.
ITEM_BYTES = 1000


@dataclass(frozen=True, slots=True)
class ListInputs:
    """The kept inputs to list."""

    since: Time = ""
    """Only inputs that arrived at this time or later: RFC 3339 or Unix ms."""
    until: Time = ""
    """Only inputs that arrived before this time."""
    agent: Name = ""
    """Only inputs that were sent to the agent with this alias alone, such as webhooks."""
    store: Name = ""
    """Only inputs that this store keeps: its full memory_id. By default those of all stores."""
    limit: Limit = 100
    """The maximum number of inputs. A page may have fewer, or none, and still a `next_cursor`."""
    cursor: Annotated[str, Field(max_length=64)] = ""
    """The `next_cursor` of the previous page."""


@dataclass(frozen=True, slots=True)
class InputView:
    """An input as it arrived."""

    id: str
    at: Moment
    swarm: str
    agent: str
    """The alias of the only agent that got it; empty for an input of a swarm."""
    operation: str
    """The name of the called operation; empty for a message."""
    store: str
    """The store of the call."""
    actor: str
    """The caller."""
    key: str
    """The idempotency key of its producer."""
    hop: str
    origin: str
    """Of a message from another pipeline: that pipeline and the first input of the chain."""
    published: bool
    """Whether it was on the public swarm already."""
    traceparent: str
    """The trace context with which it came."""
    via: str
    """How it came in, as JSON: way in, verdict, key, agent and model. Empty if not known."""
    data: str
    """The envelope, or the input of the operation, as JSON."""
    kept_in: str
    """The store that keeps it."""
    remembered: bool
    """Whether a store remembers its key, so that it may run again without a second effect."""


@dataclass(frozen=True, slots=True)
class InputList:
    """The kept inputs of each store, in the order in which they ran."""

    items: tuple[InputView, ...]
    next_cursor: str | None


@operation("inputs.list", access="admin", mutates=False)
def list_inputs(tx: Transaction, request: ListInputs, context: Context) -> InputList:
    """List the inputs that the stores of the pipeline keep (`inputs_days` in the bundle).

    Raises Refused: for an invalid time or cursor.
    """
    period = _parse_time(request.since, "since", 0), _parse_time(request.until, "until", LAST_MS)
    tables = [
        (at, store.memory_id, store.table(InputTable))
        for at, store in context.open_existing()
        if request.store in ("", store.memory_id)
    ]
    items: list[InputView] = []
    size = 0
    scan = _scan(tables, _parse_cursor(request.cursor), period)
    for read, (position, name, one) in enumerate(scan):
        if read == MAX_READ or one is None:
            return InputList(tuple(items), position)
        if not _matches(one, name, request, context.pipeline, period):
            continue
        size += len(one.field(b"data")) + ITEM_BYTES
        if len(items) == request.limit or (items and size > context.result_bytes):
            return InputList(tuple(items), position)
        items.append(_view(one, name, context.pipeline, [table for *_, table in tables]))
    return InputList(tuple(items), None)


def _scan(
    tables: Sequence[tuple[int, str, InputTable]],
    start: tuple[int, int, int],
    period: tuple[int, int],
) -> Iterator[tuple[str, str, KeptInput | None]]:
    """Yield (cursor, store, input) of each input from the start on: a store, a row and a number in
    the row. The last one has None if there may be more.
    """
    for at, name, table in tables:
        if at < start[0]:
            continue
        first, skipped = start[1:] if at == start[0] else (0, 0)
        for n, inputs in table.rows(first, *period):
            left_out = skipped if n == first else 0
            for number in range(left_out, len(inputs)):
                yield f"{at}.{n}.{number}", name, inputs[number]
        if (following := table.find_next(first)) is not None:
            yield f"{at}.{following}.0", name, None
            return


def _matches(
    one: KeptInput, store: str, request: ListInputs, uid: str, period: tuple[int, int]
) -> bool:
    return (
        period[0] <= one.ms < period[1]
        and (one.uid or owner_of(store)) == uid
        and request.agent in ("", one.text(b"agent"))
    )


def _view(one: KeptInput, name: str, uid: str, tables: Sequence[InputTable]) -> InputView:
    key, operation = one.text(b"id"), one.text(b"op")
    digest = ProducerKey(uid, f"{CALL_KEY_PREFIX * bool(operation)}{key}", bool(operation)).digest
    return InputView(
        one.id,
        format_time(one.ms),
        one.text(b"swarm"),
        one.text(b"agent"),
        operation,
        one.text(b"store"),
        one.text(b"actor"),
        key,
        one.text(b"hop"),
        one.text(b"origin"),
        bool(one.field(b"published")),
        one.text(b"traceparent"),
        one.text(b"via"),
        one.text(b"data"),
        name,
        bool(key) and any(table.remembers(digest) for table in tables),
    )


def _parse_time(text: str, name: str, default: int) -> int:
    """Return Unix ms. Raises Refused."""
    if not text:
        return default
    time_ms = parse_ms(text)
    if time_ms is None:
        raise Refused(f"`{name}` must be a time such as 2026-11-28T09:00:00Z, or Unix ms")
    return time_ms


def _parse_cursor(cursor: str) -> tuple[int, int, int]:
    """Return the position of a store, a row and an input. Raises Refused."""
    if not cursor:
        return 0, 0, 0
    if not CURSOR.fullmatch(cursor):
        raise Refused("`cursor` is invalid; omit it to start at the first page")
    store, row, number = map(int, cursor.split("."))
    return store, row, number
