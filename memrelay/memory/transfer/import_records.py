"""records.import: imports the lines of an export into a store."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Annotated, Protocol

from pydantic import Field

from memrelay.memory.admission import REVIEW, settle
from memrelay.memory.engine.models import container_kinds, list_named_hooks, load
from memrelay.memory.engine.origins import IMPORT as ORIGIN
from memrelay.memory.engine.origins import REPLACED
from memrelay.memory.engine.split_texts import MAX_CHARACTERS, SplitTexts
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.versions import State
from memrelay.memory.errors import PolicyStop, Refused
from memrelay.memory.operations import Context, known_operation, operation
from memrelay.memory.records.ids import uid_of, uid_of_store
from memrelay.memory.transfer import IMPORT, MAX_LINES
from memrelay.memory.transfer.export import ROW_TABLES, Imports, Line, read_line, to_state

# Characters of the name of an import.
MAX_LABEL = 200
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
    at: Annotated[int, Field(ge=0, le=MAX_CHARACTERS)] = 0
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
    label: Annotated[str, Field(max_length=MAX_LABEL)] = ""
    """A name of the import, by which it can be undone. Its calls have the same one. By default,
    each call is an import with the id of its input."""


@dataclass(frozen=True, slots=True)
class SkippedLine:
    """A line that conflicts with existing data, or that a policy stops."""

    at: int
    """Its index in `lines`, from 0."""
    reason: str
    policy: str = ""
    """The name of the policy; empty for a conflict."""


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
    """The lines that were skipped because of a conflict or a policy."""


@operation(IMPORT, access="admin", mutates=True, imports=True)
def import_records(tx: Transaction, call: ImportRecords, context: Context) -> Imported:
    """Import lines of an export with their guids, times and history. A repeat has no effect.

    Raises PolicyStop: when a policy of the store stops a line, unless `skip_conflicts` is set.
    Raises Refused: when a line is malformed or belongs to another pipeline, pieces are out of
    order, or a line conflicts with existing data and neither `replace` nor `skip_conflicts` is set.
    Then the call changes nothing.
    """
    if call.piece:
        if not tx.table(SplitTexts).keep(call.of, call.at, call.piece):
            raise Refused("the pieces of a long line are out of order; start the import again")
        return Imported(0, 0, 0)
    lines = _read_lines(tx, call)
    _set_origin(tx, call, context)
    if call.skip_conflicts:
        return _TolerantImport(tx, call, context).run(lines)
    imports = tx.table(Imports)
    missing = [line for line in lines if not imports.has(line)]
    if tx.records.path.admit:
        missing = [line for line in map(imports.admit, missing) if not imports.has(line)]
    conflicts = [(line, reason) for line in missing if (reason := imports.find_conflict(line))]
    if conflicts and not call.replace:
        line, reason = conflicts[0]
        others = f" ({len(conflicts) - 1} more lines conflict too)" if len(conflicts) > 1 else ""
        raise Refused(
            f"{line.name}: {reason}{others}; nothing was imported. "
            "Set `replace` to replace the existing data"
        )
    imports.put(missing)
    return Imported(len(missing) - len(conflicts), len(lines) - len(missing), len(conflicts))


def _set_origin(tx: Transaction, call: ImportRecords, context: Context) -> None:
    """Let all that the import changes have its name as their origin."""
    tx.records.versions.origins.replace(profile=f"{ORIGIN}{call.label or context.input_id}")


def _read_lines(tx: Transaction, call: ImportRecords) -> list[Line]:
    """Return the lines, the first one joined from its pieces. Raises Refused."""
    texts = call.lines
    if call.at and texts:
        beginning = tx.table(SplitTexts).take(call.of)
        if len(beginning) != call.at:
            raise Refused("the earlier pieces of a long line are missing; start the import again")
        texts = (beginning + texts[0], *texts[1:])
    lines = [read_line(text).with_uid(tx.memory_id) for text in texts]
    if (twice := len(lines) - len({line.name for line in lines})) > 0:
        raise Refused(
            f"{twice} of the lines repeat the record, state or memory of another line; remove them"
        )
    uid = uid_of_store(tx.memory_id)
    for line in lines:
        # A line must not be, or belong to, a named memory of another pipeline.
        owner = None if line.row is None else line.row.owner_uid()
        is_foreign = owner != uid
        if owner is None:
            is_foreign = uid_of("mem", line.scope) not in ("", uid)
        if is_foreign:
            raise Refused(
                f"{line.name} has the id of a memory outside pipeline {uid}; nothing was imported. "
                "Export the records again from the pipeline that owns them"
            )
    return lines


class RecordMerge(Protocol):
    """Merges imported records of a kind into similar ones."""

    def exists(self, record: State) -> bool:
        """Return whether a record has the same text."""

    def merge(self, record: State) -> bool:
        """Merge a record into a similar one. Return False if there is none."""

    def index(self, scope: str) -> None:
        """Prepare new records of a scope for comparisons."""


class _TolerantImport:
    """An import that skips conflicts."""

    def __init__(self, tx: Transaction, call: ImportRecords, context: Context) -> None:
        self._tx, self._call, self._context = tx, call, context
        self._imports = tx.table(Imports)
        # By kind of record: what merges new records.
        self._merges: dict[str, RecordMerge] = {}
        if call.merge_entries:
            for kind, name in list_named_hooks("merges").items():
                self._merges[kind] = load(name)(tx, context.now_ms)
        self._skipped: list[SkippedLine] = []
        # The texts of lines to which others belong.
        self._containers: list[str] = []

    def run(self, lines: list[Line]) -> Imported:
        counts, new, containers = Counter[str](), list[Line](), list[Line]()
        self._imports.flush()
        for at, line in enumerate(lines):
            complete = self._imports.complete(line, self._tx.memory_id, self._context.now_ms)
            outcome, complete = self._admit_line(at, complete)
            outcome = outcome or self._import_line(at, complete)
            is_container = _is_container(line)
            counts[outcome if not is_container else ""] += 1
            if is_container:
                self._containers += self._call.lines[at : at + 1]
            if outcome not in ("added", "replaced") or self._call.check_only:
                continue
            if is_container:
                containers.append(complete)
            else:
                new += (*containers, complete)
                containers = []
                if self._merges:
                    # The next records are compared with it.
                    self._put(new)
                    new = []
        if not any(one.policy for one in self._skipped):
            new += containers
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
        self._imports.put(lines)
        for kind, merge in self._merges.items():
            for scope in {line.scope for line in lines if line.kind == kind}:
                merge.index(scope)

    def _admit_line(self, at: int, line: Line) -> tuple[str, Line]:
        """Return (outcome, line) as the policies of the store let it in. The outcome is "" unless
        they stop it.
        """
        if not self._tx.records.path.admit or self._imports.has(line, with_parts=False):
            return "", line
        try:
            return "", self._imports.admit(line)
        except PolicyStop as stop:
            self._skipped.append(SkippedLine(at, self._settle(stop, at), stop.policy))
            return "skipped", line

    def _settle(self, stop: PolicyStop, at: int) -> str:
        """Refuse or drop a line, or let it wait for review. Return what became of it."""
        # The first line may have come in pieces.
        is_whole = at or not self._call.at
        lines = (*self._containers, *self._call.lines[at : at + 1])
        call = replace(self._call, lines=lines) if is_whole else None
        try:
            settle(stop, known_operation(IMPORT), call, self._tx, self._context)
        except PolicyStop as refused:
            return str(refused)
        finally:
            _set_origin(self._tx, self._call, self._context)
        does = "holds the write for review" if stop.action == REVIEW else "drops the write"
        return f"the policy {stop.policy!r} {does}"

    def _import_line(self, at: int, line: Line) -> str:
        """Return what becomes of a line, and merge it if it is similar to a record."""
        if self._imports.has(line, with_parts=False) or self._imports.has_equal(line):
            return "same"
        merge, record = self._merges.get(line.kind), line.record
        if merge is not None and record is not None and merge.exists(to_state(record)):
            return "same"
        if reason := self._imports.find_conflict(line):
            if _is_container(line):
                return "same"
            if self._call.replace:
                return "replaced"
            self._skipped.append(SkippedLine(at, reason))
            return "skipped"
        if merge is not None and record is not None and not self._call.check_only:
            # An undo must not take a merged record for a created one.
            self._tx.records.versions.origins.replace(verdict=REPLACED)
            return "merged" if merge.merge(to_state(record)) else "added"
        return "added"


def _is_container(line: Line) -> bool:
    """Return whether other lines belong to this line, as entries to their named memory."""
    if line.row is not None:
        return ROW_TABLES[line.type].lines.holds_records
    return line.kind in container_kinds()
