"""records.import: imports the lines of an export into a store."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.errors import Refused
from memrelay.memory.files.export import MAX_LINE, Line, read_line
from memrelay.memory.operation import Context, operation
from memrelay.memory.records.ids import uid_of, uid_of_store
from memrelay.memory.sqlite.store import Transaction

NAME = "records.import"
MOST = 1000  # lines per call
Lines = Annotated[tuple[str, ...], Field(max_length=MOST)]


@dataclass(frozen=True, slots=True)
class ImportRecords:
    """Lines written by `memrelay export --records`, without its header and footer lines."""

    lines: Lines = ()
    """The lines, in order."""
    replace: bool = False
    """Whether to replace existing records that differ."""
    piece: str = ""
    """Instead of lines: a part of a long line. Its last part is the first of `lines`."""
    at: Annotated[int, Field(ge=0, le=MAX_LINE)] = 0
    """The number of characters of this line in earlier pieces."""
    of: Annotated[str, Field(max_length=64)] = ""
    """A random name for the pieces of one line, unique among concurrent imports."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of the import."""

    added: int
    """The number of lines that were new."""
    same: int
    """The number of lines that were already there."""
    replaced: int
    """The number of lines that replaced something."""


@operation(NAME, access="admin", mutates=True)
def import_records(tx: Transaction, given: ImportRecords, context: Context) -> Imported:
    """Import lines of an export with their guids, times and history. A repeat has no effect.

    Raises Refused: when a line is malformed or belongs to another pipeline, pieces are out of
    order, or a line conflicts with existing data and `replace` is not set. Then the call changes
    nothing.
    """
    imports = tx.imports
    if given.piece:
        if not imports.keep_piece(given.of, given.at, given.piece):
            raise Refused("the pieces of a long line are out of order; start the import again")
        return Imported(0, 0, 0)
    texts = given.lines
    if given.at and texts:
        beginning = imports.take_pieces(given.of)
        if len(beginning) != given.at:
            raise Refused("the earlier pieces of a long line are missing; start the import again")
        texts = (beginning + texts[0], *texts[1:])
    lines = [read_line(text).with_uid(tx.memory_id) for text in texts]
    if (twice := len(lines) - len({line.name for line in lines})) > 0:
        raise Refused(
            f"{twice} of the lines repeat the record, state or memory of another line; remove them"
        )
    _refuse_foreign_memories(lines, uid_of_store(tx.memory_id))
    missing = [line for line in lines if not imports.has(line)]
    conflicts = [(line, why) for line in missing if (why := imports.conflict(line))]
    if conflicts and not given.replace:
        raise Refused(_conflict_message(conflicts))
    imports.put(missing)
    return Imported(len(missing) - len(conflicts), len(lines) - len(missing), len(conflicts))


def _refuse_foreign_memories(lines: list[Line], uid: str) -> None:
    """Raise Refused if a line is, or belongs to, a named memory of another pipeline."""
    for line in lines:
        owner = uid_of("mem", line.scope)
        is_foreign = owner not in ("", uid)
        if line.memory is not None:
            is_foreign = uid_of("mem", line.memory.id) != uid
        if is_foreign:
            raise Refused(
                f"{line.name} has the id of a memory outside pipeline {uid}; nothing was imported. "
                "Export the records again from the pipeline that owns them"
            )


def _conflict_message(conflicts: list[tuple[Line, str]]) -> str:
    line, why = conflicts[0]
    others = f" ({len(conflicts) - 1} more lines conflict too)" if len(conflicts) > 1 else ""
    return (
        f"{line.name}: {why}{others}; nothing was imported. "
        "Set `replace` to replace the existing data"
    )
