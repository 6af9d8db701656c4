"""records.import: imports the lines of an export into a store."""

from collections import Counter
from dataclasses import dataclass
from typing import Annotated

import orjson
from pydantic import Field

from memrelay.memory.engine.imports import Imports
from memrelay.memory.engine.store import Transaction
from memrelay.memory.errors import Refused
from memrelay.memory.models.named_memories.entries import NewEntry, apply_write, plan_write
from memrelay.memory.models.named_memories.entry_text import digest_of
from memrelay.memory.models.named_memories.entry_vector import find_cached_vector
from memrelay.memory.models.named_memories.table import EntryTable
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.ids import uid_of, uid_of_store
from memrelay.memory.records.kinds import INSTANCE_KIND
from memrelay.memory.transfer.export import MAX_LINE, Exported, Line, read_line
from memrelay.memory.transfer.import_call import MAX_LINES, NAME

Lines = Annotated[tuple[str, ...], Field(max_length=MAX_LINES)]


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
    skip_conflicts: bool = False
    """Whether to skip lines that conflict with existing data and return them, instead of refusing
    the call. In this mode, a creation time of 0 stands for the time of the import, and an empty
    scope for the store. Named memories and instances are created if they are missing, and not
    counted."""
    merge_entries: bool = False
    """With `skip_conflicts`: whether new entries of named memories are merged into similar ones,
    by the rules of entries.create."""
    check_only: bool = False
    """With `skip_conflicts`: whether to only count, and change nothing."""


@dataclass(frozen=True, slots=True)
class SkippedLine:
    """A line that conflicts with existing data."""

    at: int
    """Its index in `lines`, from 0."""
    reason: str


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of the import."""

    added: int
    """The number of lines that were new."""
    same: int
    """The number of lines that were already there."""
    replaced: int
    """The number of lines that replaced something."""
    merged: int = 0
    """The number of entries that were merged into similar ones."""
    skipped: tuple[SkippedLine, ...] = ()
    """The lines that were skipped because of a conflict."""


@operation(NAME, access="admin", mutates=True)
def import_records(tx: Transaction, given: ImportRecords, context: Context) -> Imported:
    """Import lines of an export with their guids, times and history. A repeat has no effect.

    Raises Refused: when a line is malformed or belongs to another pipeline, pieces are out of
    order, or a line conflicts with existing data and neither `replace` nor `skip_conflicts` is set.
    Then the call changes nothing.
    """
    imports = tx.table(Imports)
    if given.piece:
        if not imports.keep_piece(given.of, given.at, given.piece):
            raise Refused("the pieces of a long line are out of order; start the import again")
        return Imported(0, 0, 0)
    lines = _read_lines(tx, given)
    if given.skip_conflicts:
        return _Import(tx, given, context).run(lines)
    missing = [line for line in lines if not imports.has(line)]
    conflicts = [(line, why) for line in missing if (why := imports.conflict(line))]
    if conflicts and not given.replace:
        raise Refused(_conflict_message(conflicts))
    imports.put(missing)
    return Imported(len(missing) - len(conflicts), len(lines) - len(missing), len(conflicts))


def _read_lines(tx: Transaction, given: ImportRecords) -> list[Line]:
    """Return the lines, the first one joined from its pieces. Raises Refused."""
    texts = given.lines
    if given.at and texts:
        beginning = tx.table(Imports).take_pieces(given.of)
        if len(beginning) != given.at:
            raise Refused("the earlier pieces of a long line are missing; start the import again")
        texts = (beginning + texts[0], *texts[1:])
    lines = [read_line(text).with_uid(tx.memory_id) for text in texts]
    if (twice := len(lines) - len({line.name for line in lines})) > 0:
        raise Refused(
            f"{twice} of the lines repeat the record, state or memory of another line; remove them"
        )
    _refuse_foreign_memories(lines, uid_of_store(tx.memory_id))
    return lines


class _Import:
    """An import that skips conflicts."""

    def __init__(self, tx: Transaction, given: ImportRecords, context: Context) -> None:
        self._tx, self._given, self._context = tx, given, context
        self._skipped: list[SkippedLine] = []

    def run(self, lines: list[Line]) -> Imported:
        """Import the lines in order."""
        counts, new = Counter[str](), list[Line]()
        self._tx.table(Imports).complete()
        for at, line in enumerate(lines):
            whole = self._tx.table(Imports).completed(
                line, self._tx.memory_id, self._context.now_ms
            )
            outcome = self._outcome(at, whole)
            counts[outcome if not _is_container(line) else ""] += 1
            if outcome in ("added", "replaced") and not self._given.check_only:
                new.append(whole)
                if self._given.merge_entries:
                    # The next entries are compared with it.
                    self._put(new)
                    new = []
        self._put(new)
        return Imported(
            counts["added"],
            counts["same"],
            counts["replaced"],
            counts["merged"],
            tuple(self._skipped),
        )

    def _put(self, lines: list[Line]) -> None:
        if not lines:
            return
        self._tx.table(Imports).put(lines)
        if self._given.merge_entries:
            for scope in {line.scope for line in lines if line.is_entry}:
                self._tx.table(EntryTable).digest(scope)

    def _outcome(self, at: int, line: Line) -> str:
        """Return what becomes of a line."""
        imports, record = self._tx.table(Imports), line.record
        if imports.has(line, with_confirmations=False):
            return "same"
        if line.edge is not None and imports.has_equal_edge(line.edge):
            return "same"
        can_merge = self._given.merge_entries and line.is_entry and record is not None
        if can_merge and record is not None and self._is_known(record):
            return "same"
        if why := imports.conflict(line):
            if _is_container(line):
                return "same"
            if self._given.replace:
                return "replaced"
            self._skipped.append(SkippedLine(at, why))
            return "skipped"
        if can_merge and record is not None and not self._given.check_only:
            return "merged" if self._merge(record) else "added"
        return "added"

    def _is_known(self, record: Exported) -> bool:
        """Return whether an entry of the memory has the text, alone or among its lines."""
        return bool(self._tx.table(EntryTable).same(record.scope, digest_of(record.content or "")))

    def _merge(self, record: Exported) -> bool:
        """Merge an entry into a similar one. Return False if there is none."""
        text = record.content or ""
        new = NewEntry(
            record.guid,
            record.scope,
            text,
            self._context.now_ms,
            record.source,
            tuple(orjson.loads(record.tags)),
            metadata=orjson.loads(record.data or "{}"),
            may_wait=False,
            confirms=False,
        )
        question = find_cached_vector(self._tx, text)
        planned = plan_write(self._tx, new, question)
        if planned.action == "created":
            return False
        apply_write(self._tx, new, planned, question)
        return True


def _is_container(line: Line) -> bool:
    """Return whether other lines belong to this line: it is a named memory or an instance."""
    is_instance = line.record is not None and line.record.kind == INSTANCE_KIND
    return is_instance or line.memory is not None


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
