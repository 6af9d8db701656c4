"""Makes the receipts of calls and blocks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

import orjson

from memrelay.memory.engine.store import Transaction
from memrelay.memory.models.receipts.table import Receipt, ReceiptTable
from memrelay.memory.operations import RECEIPT, Context, Operation
from memrelay.memory.records.ids import ID, guid_of

# The version of the code that decides the order and the scores. Raise it with each change of them:
# then `memrelay receipt --verify` says why an answer differs.
RANKING = 1
# Records that a receipt names, at most.
MAX_FOUND = 100
# The guid and the score of a record; None without a score.
Found = tuple[str, float | None]
ENGLISH = "english"


class Read(NamedTuple):
    """One read: the operation with its input as an object, and the records, best first."""

    operation: str
    given: Mapping[str, Any]
    found: Sequence[Found]
    # As the search took them; "" if the operation has none.
    mode: str = ""
    language: str = ENGLISH


class Reader(NamedTuple):
    """Who has read, for which answer. `input` is the id of a message."""

    pipeline: str
    actor: str
    agent: str = ""
    input: str = ""
    thread: str = ""


def build_receipt(tx: Transaction, ident: str, read: Read, reader: Reader) -> Receipt:
    """Return the receipt of a read that a store has just answered."""
    shown = read.found[:MAX_FOUND]
    numbers = tx.table(ReceiptTable).numbers([guid for guid, _ in shown])
    found = [(guid, numbers.get(guid), score) for guid, score in shown]
    return Receipt(
        ident,
        tx.records.versions.last_change,
        reader.pipeline,
        read.operation,
        orjson.dumps(read.given).decode(),
        reader.actor,
        reader.agent,
        reader.input,
        reader.thread,
        orjson.dumps(found).decode(),
        len(read.found) - len(shown),
        orjson.dumps(_fingerprint(tx, read)).decode(),
    )


def _fingerprint(tx: Transaction, read: Read) -> dict[str, Any]:
    """Return what the order and the scores depend on, besides the records and the question."""
    embedder = ""
    if read.mode != "fts" and (serving := tx.vectors.serving()) is not None:
        embedder = serving.fingerprint
        if tx.vectors.backlog(serving):
            embedder += " (some records had no vector yet)"
    return {
        "ranking": RANKING,
        "embedder": embedder,
        "language": read.language,
        "settings": {"mode": read.mode},
    }


def make_receipt(
    operation: Operation, tx: Transaction, given: Any, output: Any, context: Context
) -> Receipt:
    """Return the receipt of a call, with a new id. It may name the answer that uses it."""
    language = getattr(given, "language", None) or context.language
    used_by = given.receipt if isinstance(given.receipt, str) else ""
    own = f"{context.pipeline}/"
    is_own = used_by.startswith(own)
    input_id = used_by.removeprefix(own).partition(".")[0] if is_own else used_by
    reader = Reader(
        context.pipeline,
        context.actor,
        context.actor if is_own else "",
        input_id,
        getattr(given, "session_id", "") or "",
    )
    read = Read(
        operation.name,
        as_given(replace(given, **{RECEIPT: False})),
        list(FINDERS[operation.name](tx, output)),
        getattr(output, "mode", ""),
        language,
    )
    ident = tx.table(ReceiptTable).new_id(context.now_ms)
    receipt = build_receipt(tx, ident, read, reader)
    return _with_versions(receipt, context) if operation.begin is not None else receipt


def _with_versions(receipt: Receipt, context: Context) -> Receipt:
    """Return the receipt of a read of several stores with only the records of these stores."""
    found = orjson.loads(receipt.found)
    numbers: dict[str, int] = {}
    for _, store in context.open_existing():
        numbers |= store.table(ReceiptTable).numbers([guid for guid, *_ in found])
    known = [(guid, numbers[guid], score) for guid, _, score in found if guid in numbers]
    return receipt._replace(found=orjson.dumps(known).decode())


def as_given(given: Any) -> dict[str, Any]:
    """Return the fields of an input that do not have their default value."""
    return {
        one.name: value
        for one in fields(given)
        if (value := getattr(given, one.name)) != one.default
    }


def _find_hits(tx: Transaction, output: Any) -> Iterable[Found]:
    return ((hit.record.guid, hit.score) for hit in output.items)


def _find_knowledge(tx: Transaction, output: Any) -> Iterable[Found]:
    return ((guid_of("me", tx.memory_id, one.entry_id), one.score) for one in output.results)


def _find_context(tx: Transaction, output: Any) -> Iterable[Found]:
    return ((guid_of("me", tx.memory_id, one), None) for one in output.entry_ids)


def _find_facts(tx: Transaction, output: Any) -> Iterable[Found]:
    """The confidence of facts has no history, so it is no score of a receipt."""
    return ((fact.id, None) for fact in output.items)


def _find_items(tx: Transaction, output: Any) -> Iterable[Found]:
    """Items of a recipe may also be pairs, events and nodes, which are no records."""
    items = output["finalOutput"]
    for item in items if isinstance(items, list) else ():
        ident = item.get("id") if isinstance(item, dict) else None
        if isinstance(ident, str):
            entry = ID.fullmatch(ident)
            yield "-".join(entry.groups()[2:]) if entry else ident, item.get("score")


# How to find the records in the output of each operation with `receipt`.
FINDERS: dict[str, Callable[[Transaction, Any], Iterable[Found]]] = {
    "records.search": _find_hits,
    "knowledge.search": _find_knowledge,
    "knowledge.context": _find_context,
    "facts.search": _find_facts,
    "recipes.execute": _find_items,
}
