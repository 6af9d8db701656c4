"""records.import: takes the lines of an export into a store."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.errors import Refused
from memrelay.memory.files.export import LONGEST, Line, read_line
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction

NAME = "records.import"
MOST = 1000  # lines of a call
Lines = Annotated[tuple[str, ...], Field(max_length=MOST)]


@dataclass(frozen=True, slots=True)
class ImportRecords:
    """Lines as `memrelay export --records` writes them, without those that say what is in the
    file."""

    lines: Lines = ()
    """Lines, in their order."""
    replace: bool = False
    """Whether what is there, and is not the same, gives way."""
    piece: str = ""
    """Instead of lines: a piece of one that is too long for a call; its last piece comes as the
    first of `lines`."""
    at: Annotated[int, Field(ge=0, le=LONGEST)] = 0
    """How many characters of this line came in pieces before."""
    of: Annotated[str, Field(max_length=64)] = ""
    """What the pieces of this line have in common, and no line of an import that goes on beside
    this one: a random name."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of the lines."""

    added: int
    """How many were not there."""
    same: int
    """How many were there already."""
    replaced: int
    """In the place of how many others came."""


@operation(NAME, access="admin", mutates=True)
def import_records(tx: Transaction, given: ImportRecords, context: Context) -> Imported:
    """Takes lines of an export in: guids, times, histories and all. The same again changes nothing.

    Raises Refused for what is no such line, for pieces that are not in order, and where something
    else is there under the
    same name; then nothing of the call is done.
    """
    imports = tx.imports
    if given.piece:
        if not imports.keep_piece(given.of, given.at, given.piece):
            raise Refused(
                "the pieces of a long line did not come in their order; begin the import again"
            )
        return Imported(0, 0, 0)
    texts = given.lines
    if given.at and texts:
        beginning = imports.take_pieces(given.of)
        if len(beginning) != given.at:
            raise Refused(
                "the beginning of a long line is not there any more; begin the import again"
            )
        texts = (beginning + texts[0], *texts[1:])
    lines = [read_line(text).with_uid(tx.memory_id) for text in texts]
    if (twice := len(lines) - len({line.name for line in lines})) > 0:
        raise Refused(
            f"{twice} of the lines are of the same record, state or memory as another one"
        )
    missing = [line for line in lines if not imports.has(line)]
    in_the_way = [(line, why) for line in missing if (why := imports.conflict(line))]
    if in_the_way and not given.replace:
        raise Refused(_told(in_the_way))
    imports.put(missing)
    return Imported(len(missing) - len(in_the_way), len(lines) - len(missing), len(in_the_way))


def _told(conflicts: list[tuple[Line, str]]) -> str:
    line, why = conflicts[0]
    others = f"; so it is with {len(conflicts) - 1} more of these lines" * (len(conflicts) > 1)
    return f"{line.name}: {why}{others}. Nothing of them was taken in; with `replace` what is there gives way"
