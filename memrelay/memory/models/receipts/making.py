"""Makes the receipts of calls and blocks."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

from memrelay.memory.engine.models import find_key_table
from memrelay.memory.engine.store import Transaction
from memrelay.memory.models.receipts.packing import MAX_FOUND, RANKING, Fingerprint, Receipt
from memrelay.memory.models.receipts.table import ReceiptTable
from memrelay.memory.operations import RECEIPT, Context, Found, Operation, Read
from memrelay.memory.records.ids import ID, guid_of

ITEM_KIND = "store.item"


class Reader(NamedTuple):
    """Who has read, for which answer. `input` is the id of a message."""

    pipeline: str
    actor: str
    agent: str = ""
    input: str = ""
    thread: str = ""


def describe_embedder(tx: Transaction, mode: str) -> str:
    """Return the fingerprint of the embedder that a search in a mode uses, "" for none."""
    serving = None if mode == "fts" else tx.vectors.serving()
    if serving is None:
        return ""
    note = " (some records had no vector yet)" if tx.vectors.backlog(serving) else ""
    return f"{serving.fingerprint}{note}"


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
    shown = read.found[:MAX_FOUND]
    found = _add_numbers(tx, operation, shown, context)
    return Receipt(
        tx.table(ReceiptTable).new_id(context.now_ms),
        tx.records.versions.last_change,
        *(reader.pipeline, read.operation, read.given),
        *(reader.actor, reader.agent, reader.input, reader.thread),
        found,
        len(read.found) - len(shown),
        Fingerprint(RANKING, describe_embedder(tx, read.mode), read.language, read.mode),
    )


def _add_numbers(
    tx: Transaction, operation: Operation, found: Sequence[Found], context: Context
) -> list[tuple[str, int | None, float | None]]:
    """Return the records with their versions. A read of several stores leaves out
    records that are in none of them.
    """
    guids = [guid for guid, _ in found]
    if operation.name not in OF_SEVERAL:
        numbers = tx.table(ReceiptTable).numbers(guids)
        return [(guid, numbers.get(guid), score) for guid, score in found]
    known: dict[str, int] = {}
    for _, store in context.open_existing():
        known |= store.table(ReceiptTable).numbers(guids)
    return [(guid, known[guid], score) for guid, score in found if guid in known]


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


def _find_fact(tx: Transaction, output: Any) -> Iterable[Found]:
    yield output.id, None


def _find_entries(tx: Transaction, output: Any) -> Iterable[Found]:
    """Hits of shared stores have no guids, but the values of their keys."""
    table = tx.table(find_key_table(ITEM_KIND))
    for hit in output.items:
        stored = table.find(hit.store, hit.namespace, hit.key, hit.owner)
        if stored is not None:
            yield stored.state.guid, hit.score


def _find_documents(tx: Transaction, output: Any) -> Iterable[Found]:
    return _find_named(output.items)


def _find_items(tx: Transaction, output: Any) -> Iterable[Found]:
    """Items of a recipe may also be pairs, events and nodes, which are no records."""
    items = output["finalOutput"]
    return _find_named(items if isinstance(items, list) else ())


def _find_named(items: Iterable[Any]) -> Iterable[Found]:
    """Yield the records of items with an id, which may be the id of an entry."""
    for item in items:
        ident = item.get("id") if isinstance(item, dict) else None
        if isinstance(ident, str):
            entry = ID.fullmatch(ident)
            yield "-".join(entry.groups()[2:]) if entry else ident, item.get("score")


# Operations that read several stores.
OF_SEVERAL = ("recipes.execute", "documents.search")
# How to find the records in the output of each operation with `receipt`.
FINDERS: dict[str, Callable[[Transaction, Any], Iterable[Found]]] = {
    "records.search": _find_hits,
    "knowledge.search": _find_knowledge,
    "knowledge.context": _find_context,
    "facts.search": _find_facts,
    "facts.recall": _find_fact,
    "items.search": _find_entries,
    "documents.search": _find_documents,
    "recipes.execute": _find_items,
}
