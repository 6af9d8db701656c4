"""records.append: adds text to a record, found by its guid or by the keys that are set; makes one where there is none."""
from dataclasses import dataclass

from memory.operation import operation
from memory.operations.records_write import WriteInput, write
from memory.sqlite.filters import Filters
from memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class AppendInput:
    """`guid` is looked up first; then `filters` (of scope, kind, source), unless they are empty; `new` is the last resort."""

    new: WriteInput   # its content is the text to append
    guid: str
    filters: Filters
    separator: str = "\n"


@operation("records.append", access="append", mutates=True)
def append(tx: Transaction, addition: AppendInput) -> tuple[str, bool]:
    """(guid, whether a record was there to append to). Of several that match, the oldest grows."""
    found = tx.records.by_guid(addition.guid) if addition.guid else None
    if found is None and addition.filters:
        found = tx.records.oldest(addition.filters)
    if found is None:
        return write(tx, addition.new), False
    tx.records.replace_content(found, found.content + addition.separator + addition.new.content, addition.new.now_ms)
    return found.guid, True
