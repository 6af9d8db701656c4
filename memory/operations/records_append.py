"""records.append: adds text to a record, found by its guid or by the keys that are set; makes one
where there is none."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.errors import NotThere, ResultTooLarge
from memrelay.memory.operation import Context, operation
from memrelay.memory.operations.records_read import RECORD_BYTES
from memrelay.memory.operations.records_write import WriteInput, write
from memrelay.memory.records.record import DEFAULT_KIND
from memrelay.memory.records.tags import parse
from memrelay.memory.records.view import Content, Name, Reason, Tags
from memrelay.memory.sqlite.filters import Filters
from memrelay.memory.sqlite.store import Transaction
from memrelay.memory.sqlite.versions import StoredRecord

SHORT = (
    8  # of the bytes that are allowed one in so many is characters that fit, data beside them too
)


@dataclass(frozen=True, slots=True)
class AppendInput:
    """`guid` is looked up first; then `filters` (of scope, kind, source), unless they are empty;
    `new` is the last resort."""

    new: WriteInput  # its content is the text to append
    guid: str
    filters: Filters
    separator: str = "\n"
    most_bytes: int = 1 << 63  # of the record afterwards: nobody could read a longer one


def append(tx: Transaction, addition: AppendInput) -> tuple[str, bool]:
    """(guid, whether a record was there to append to). Of several that match, the oldest grows.
    Raises ResultTooLarge."""
    found = tx.records.by_guid(addition.guid) if addition.guid else None
    if found is None and addition.filters:
        found = tx.records.oldest(addition.filters)
    if found is None:
        return write(tx, addition.new), False
    content = found.content + addition.separator + addition.new.content
    if len(content) > addition.most_bytes // SHORT:
        _check_size(found, content, addition.most_bytes)
    tx.records.replace_content(found, content, addition.new.now_ms)
    return found.guid, True


def _check_size(place: StoredRecord, content: str, most_bytes: int) -> None:
    """Raises ResultTooLarge where no answer could tell the record any more."""
    size = len(content.encode()) + len(place.whole.data or "") + RECORD_BYTES
    if size > most_bytes:
        raise ResultTooLarge(
            f"record {place.guid} would have {size} bytes, and an answer has at most {most_bytes}: append to "
            "another record, or give this one a shorter content first"
        )


@dataclass(frozen=True, slots=True)
class AppendToRecord:
    """What is to be added, and to which record: that of `guid`, else the oldest with `scope`,
    `kind` and `source`."""

    content: Content
    """The text to add."""
    guid: Annotated[str, Field(max_length=128)] = ""
    """The record that grows, which must be there."""
    scope: Name = ""
    """Without a guid: the oldest record of this scope grows."""
    kind: Name = ""
    """Without a guid: the oldest record of this kind grows."""
    source: Name = ""
    """Beside scope or kind: the record must be of this source."""
    tags: Tags = ()
    """Tags of a record that is made because there is none."""
    separator: Annotated[str, Field(max_length=256)] = "\n"
    """What stands between the old text and the new."""
    reason: Reason = ""
    """Why; kept in the history of a record that grows."""


@dataclass(frozen=True, slots=True)
class Appended:
    """Which record holds the text now."""

    guid: str
    created: bool
    """Whether it was made for it."""


@operation("records.append", access="append", mutates=True)
def append_to_record(tx: Transaction, addition: AppendToRecord, context: Context) -> Appended:
    """Adds text to a record, or makes one where neither guid, scope nor kind finds any.

    Raises NotThere for a guid that no record has, and ResultTooLarge where the record would not fit
    into an answer.
    """
    if addition.guid and tx.records.by_guid(addition.guid) is None:
        raise NotThere(
            f"no record has the guid {addition.guid!r} in {tx.memory_id}; without a guid a record is made"
        )
    new = WriteInput(
        context.new_guid(),
        addition.scope or tx.memory_id,
        addition.kind or DEFAULT_KIND,
        addition.content,
        addition.source or context.actor,
        parse(addition.tags),
        context.now_ms,
    )
    named = {"scope": addition.scope, "kind": addition.kind, "source": addition.source}
    keys = (
        {name: value for name, value in named.items() if value}
        if addition.scope or addition.kind
        else {}
    )
    guid, found = append(
        tx, AppendInput(new, addition.guid, keys, addition.separator, context.result_bytes)
    )
    return Appended(guid, not found)
