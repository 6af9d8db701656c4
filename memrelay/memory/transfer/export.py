"""Write and read export files: one JSON object per line for records, their earlier versions, named
memories, and rows of further tables (memrelay/memory/transfer/export_rows.py).

Ids and scopes that contain the pipeline's uid have `${pipeline_uid}` in its place, so that another
pipeline can import them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO, Annotated, Any, Protocol, TypeVar

import msgspec
import orjson
from msgspec import Meta, Struct
from msgspec.structs import replace
from pydantic import ValidationError

from memrelay.memory.engine.timestamps import LAST_MS
from memrelay.memory.engine.versions import What
from memrelay.memory.errors import BadExport, Refused
from memrelay.memory.models.named_memories.table import Memory
from memrelay.memory.models.named_memories.views import KIND as ENTRY_KIND
from memrelay.memory.records.data import LARGEST, SMALLEST, as_text, checked
from memrelay.memory.records.ids import HEX, uid_of_store
from memrelay.memory.records.kinds import ITEM_KIND
from memrelay.memory.transfer.export_rows import (
    ROW_SORTS,
    ExportedCheckpoint,
    ExportedCheckpointValue,
    ExportedCheckpointWrite,
    ExportedContext,
    ExportedEdge,
    ExportedEvent,
    ExportedGrant,
    ExportedPair,
    ExportedRow,
    ExportedSettings,
    ExportedTally,
    ExportedView,
)
from memrelay.memory.transfer.uid_placeholder import UID, replace_uid

# Maximum characters of a line. A SQLite row has at most 10^9 bytes.
MAX_LINE = 1 << 30
Int = Annotated[int, Meta(ge=SMALLEST, le=LARGEST)]
# The upper bound leaves space for later changes.
Number = Annotated[int, Meta(ge=1, le=2**62)]
# Unix ms, in the range that the API can return.
Time = Annotated[int, Meta(ge=0, le=LAST_MS)]
Guid = Annotated[str, Meta(min_length=1, max_length=128)]
MemoryIdent = Annotated[str, Meta(pattern=f"^mem_.+_{HEX.pattern}$")]


class Exported(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A record or an earlier version of it, with its columns as stored.

    `tags` and `data` are JSON texts. Times are Unix ms.
    """

    guid: Guid
    number: Number
    scope: str
    kind: str
    source: str
    tags: str
    created_at: Time
    updated_at: Time
    key: str | None = None
    owner: str | None = None
    data: str | None = None
    expires_at: Time | None = None
    in_context: Int = 0
    encrypted: Int = 0
    thread: str | None = None
    seq: Int | None = None
    # None in an earlier version if the next version begins with it, or the record was deleted.
    content: str | None = None


class Ended(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The change that ended an earlier version."""

    what: What
    changed_at: Time
    actor: str
    reason: str = ""
    # Characters of its content, None if the record was deleted.
    length: Int | None = None


class Confirmations(Struct, frozen=True, forbid_unknown_fields=True):
    """How often an entry of a named memory was written again, and the last time, Unix ms."""

    times: Int
    last: Time | None


class ExportedMemory(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A named memory."""

    id: MemoryIdent
    name: str
    created_at: Time
    updated_at: Time
    description: str | None = None
    tags: str | None = None

    @property
    def memory(self) -> Memory:
        """Return the row of its table."""
        return Memory(
            self.id, self.name, self.description, self.tags, self.created_at, self.updated_at
        )


class Line(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One line: a record, an earlier version, a named memory, or a row of a further table."""

    record: Exported | None = None
    # Only with a record.
    confirmed: Confirmations | None = None
    version: Exported | None = None
    # Only with a version.
    ended: Ended | None = None
    memory: ExportedMemory | None = None
    grant: ExportedGrant | None = None
    context: ExportedContext | None = None
    agent_settings: ExportedSettings | None = None
    tally: ExportedTally | None = None
    checkpoint: ExportedCheckpoint | None = None
    checkpoint_value: ExportedCheckpointValue | None = None
    checkpoint_write: ExportedCheckpointWrite | None = None
    kv: ExportedPair | None = None
    event: ExportedEvent | None = None
    edge: ExportedEdge | None = None
    view: ExportedView | None = None

    @property
    def sort(self) -> str:
        """Return the name of the field that the line has, one of SORTS."""
        return next((name for name in SORTS if getattr(self, name) is not None), "")

    @property
    def row(self) -> ExportedRow | None:
        """Return the row of a further table, None for other lines."""
        found: ExportedRow | None = getattr(self, self.sort) if self.sort in ROW_SORTS else None
        return found

    @property
    def name(self) -> str:
        """Return the name of the line in messages."""
        if self.record is not None:
            return f"record {self.record.guid}"
        if self.version is not None:
            return f"version {self.version.number} of record {self.version.guid}"
        if self.memory is not None:
            return f"memory {self.memory.id}"
        return (
            "nothing" if self.row is None else f"{self.sort} {ROW_SORTS[self.sort].name(self.row)}"
        )

    @property
    def scope(self) -> str:
        """Return the scope of the record or version, "" for a named memory."""
        one = self.record or self.version
        return "" if one is None else one.scope

    @property
    def is_entry(self) -> bool:
        """Return whether the line is an entry of a named memory."""
        return self.record is not None and self.record.kind == ENTRY_KIND

    def without_uid(self, memory_id: str) -> "Line":
        """Return the line with the uid of that store's pipeline replaced by the placeholder."""
        return _replace_uid(self, uid_of_store(memory_id), UID)

    def with_uid(self, memory_id: str) -> "Line":
        """Return the line with the placeholder replaced by the uid of that store's pipeline."""
        return _replace_uid(self, UID, uid_of_store(memory_id))


# What a line is about. It has exactly one of these fields.
SORTS = ("record", "version", "memory", *ROW_SORTS)


def _replace_uid(line: Line, before: str, after: str) -> Line:
    changed: dict[str, Any] = {}
    for name in ("record", "version"):
        if (one := getattr(line, name)) is not None and before in one.scope:
            changed[name] = replace(one, scope=replace_uid(one.scope, before, after))
    if line.memory is not None:
        changed["memory"] = replace(line.memory, id=replace_uid(line.memory.id, before, after))
    if line.row is not None:
        ids = {name: getattr(line.row, name) for name in ROW_SORTS[line.sort].ids}
        replaced = {name: replace_uid(ident, before, after) for name, ident in ids.items()}
        changed[line.sort] = replace(line.row, **replaced)
    return replace(line, **changed) if changed else line


def read_line(text: str) -> Line:
    """Parse a line into the JSON form that a store writes. Raises Refused."""
    try:
        line = _to_line(text)
        if line.record is not None:
            line = replace(line, record=_normalize_json(line.record))
        if line.version is not None:
            line = replace(line, version=_normalize_json(line.version))
        if line.memory is not None:
            _to_tags(line.memory.tags or "[]")
        if line.checkpoint is not None:
            _to_data(line.checkpoint.metadata)
            _to_channels(line.checkpoint.channels)
        line = _normalize_row(line)
    except (msgspec.MsgspecError, TypeError, RecursionError, ValueError) as error:
        if (sort := _unknown_sort(text.encode(errors="replace"))) != "":
            raise Refused(
                f"this Memrelay does not know the line `{sort}` of an export; import it with the "
                "version that its first line names, or a later one"
            ) from error
        raise Refused(
            f"invalid line of an export: {error}; it begins with {text[:80]!r}"
        ) from error
    if [getattr(line, sort) is None for sort in SORTS].count(False) != 1 or not _is_complete(line):
        raise Refused(
            f"a line of an export has exactly one complete object of: {', '.join(SORTS)}; this "
            f"one begins with {text[:80]!r}"
        )
    return line


def _normalize_json(one: Exported) -> Exported:
    """Write `tags` and `data` as a store writes JSON. An erasure would not find a text in other
    JSON.
    """
    try:
        given = _to_data(one.data or "{}")
        # The value of an item may be any JSON.
        data = as_text(given if one.kind == ITEM_KIND else checked(given))
    except ValidationError as error:
        raise Refused(
            f"`data` of record {one.guid!r} {error.errors(include_url=False)[0]['msg']}"
        ) from error
    return replace(one, tags=orjson.dumps(_to_tags(one.tags)).decode(), data=data)


def _normalize_row(line: Line) -> Line:
    """Write the JSON of a pair or an event as a store writes it."""
    if line.kv is not None:
        line = replace(line, kv=replace(line.kv, value=_as_stored(line.kv.value)))
    if line.event is not None:
        payload, metadata = _as_stored(line.event.payload), _as_stored(line.event.metadata)
        line = replace(line, event=replace(line.event, payload=payload, metadata=metadata))
    return line


def _as_stored(text: str) -> str:
    return orjson.dumps(orjson.loads(text)).decode()


def _is_complete(line: Line) -> bool:
    if line.version is None:
        return (
            line.ended is None
            and (line.record is None or line.record.content is not None)
            and (line.confirmed is None or line.record is not None)
        )
    if line.ended is None or line.confirmed is not None:
        return False
    content, length = line.version.content, line.ended.length
    return content is None if length is None else length >= 0


def _unknown_sort(line: bytes) -> str:
    """Return the first field of a line if this version does not know it, else ""."""
    found = FIRST_FIELD.match(line)
    sort = "" if found is None else found[1].decode()
    return "" if sort in (*SORTS, "store", "end") else sort


FIRST_FIELD = re.compile(rb'\{"(\w{1,64})":')
_to_line = msgspec.json.Decoder(Line).decode
_to_tags = msgspec.json.Decoder(list[str]).decode
_to_data = msgspec.json.Decoder(dict[str, Any]).decode
_to_channels = msgspec.json.Decoder(list[tuple[str, str, int | None]]).decode
to_json = msgspec.json.Encoder().encode


# The file: a header line, the lines of each store, and a last line with counts and a digest. The
# digest is the SHA-256 of all lines between the first and the last. It reveals a truncated or
# changed file.

FORMAT = 1
# Bytes read at once when a file of unknown content is verified.
CHUNK = 1 << 20
Result = TypeVar("Result")


class Header(Struct, frozen=True):
    """The first line."""

    # Version of the format.
    memrelay_export: int
    # Unix ms
    made_at: int
    # Version of Memrelay that made it.
    memrelay: str
    pipeline_uid: str
    pipeline_name: str


class End(Struct, frozen=True, omit_defaults=True):
    """The last line."""

    records: int
    versions: int
    memories: int
    sha256: str
    grants: int = 0
    contexts: int = 0
    agent_settings: int = 0
    tallies: int = 0
    checkpoints: int = 0
    checkpoint_values: int = 0
    checkpoint_writes: int = 0
    pairs: int = 0
    events: int = 0
    edges: int = 0
    views: int = 0


class _StoreOrEnd(Struct, frozen=True):
    # The memory_id of the lines that follow, with `${pipeline_uid}`.
    store: str = ""
    end: End | None = None


class LineWriter(Protocol):
    """A file that accepts lines."""

    def write(self, line: bytes, /) -> int:
        """Write one line."""


def write_export(
    file: LineWriter, header: Header, stores: Iterable[tuple[str, Iterable[Line]]]
) -> End:
    """Write all lines and return the last one. `stores` are (name, lines). Raises OSError."""
    digest, counts = sha256(), Counter[str]()
    file.write(to_json(header) + b"\n")
    for name, lines in stores:
        _write_line(file, digest, to_json({"store": name}))
        for line in lines:
            counts[line.sort] += 1
            _write_line(file, digest, to_json(line))
    end = End(
        counts["record"],
        counts["version"],
        counts["memory"],
        digest.hexdigest(),
        counts["grant"],
        counts["context"],
        counts["agent_settings"],
        counts["tally"],
        counts["checkpoint"],
        counts["checkpoint_value"],
        counts["checkpoint_write"],
        counts["kv"],
        counts["event"],
        counts["edge"],
        counts["view"],
    )
    file.write(to_json({"end": end}) + b"\n")
    return end


def _write_line(file: LineWriter, digest: Any, line: bytes) -> None:
    file.write(line + b"\n")
    digest.update(line + b"\n")


def verify_export(path: Path) -> End:
    """Check that a file is complete and of a known format, and return its last line.

    Raises BadExport and OSError.
    """
    digest, unknown = sha256(), ""
    # The last line read, or its last chunk: a line longer than a chunk has no counts.
    last, is_start = b"", True
    with path.open("rb") as file:
        _require_seekable(path, file)
        header = _read_header(path, file.readline(CHUNK))
        while chunk := file.readline(CHUNK):
            digest.update(last)
            unknown = unknown or (_unknown_sort(chunk) if is_start else "")
            last, is_start = chunk, chunk.endswith(b"\n")
    try:
        end = _to_store_or_end(last).end if last.endswith(b"\n") else None
    except msgspec.MsgspecError:
        end = None
    if end is None:
        raise BadExport(
            f"{path} is truncated: the last line with counts is missing; export it again"
        )
    if end.sha256 != digest.hexdigest():
        raise BadExport(f"{path} changed after the export: its digest differs; export it again")
    if unknown:
        raise BadExport(
            f"{path} has lines `{unknown}`, which this Memrelay does not know; import it with "
            f"Memrelay {header.memrelay} or later"
        )
    return end


def _require_seekable(path: Path, file: IO[bytes]) -> None:
    if not file.seekable():
        raise BadExport(
            f"{path} is a pipe, but an import reads the export twice; save it to a file and "
            "import that"
        )


def _read_header(path: Path, line: bytes) -> Header:
    try:
        header = _to_header(line)
    except msgspec.MsgspecError as error:
        raise BadExport(
            f"{path} is not an export of Memrelay: {error}; create one with `memrelay export "
            "--records`, or name the system that made the file: `--from auto`"
        ) from error
    if header.memrelay_export != FORMAT:
        raise BadExport(
            f"{path} has the format {header.memrelay_export} of another Memrelay "
            f"({header.memrelay}); import it with that version"
        )
    return header


def read_export(path: Path, longest: int = MAX_LINE) -> Iterator[tuple[str, str]]:
    """Yield (name of a store, line) of a verified file. Raises BadExport and OSError.

    `longest` limits a line, bytes.
    """
    with path.open("rb") as file:
        file.readline()
        store = ""
        while line := file.readline(longest + 1):
            if len(line) > longest:
                raise BadExport(
                    f"{path} has a line of more than {longest} bytes, which cannot be imported; it "
                    f"begins with {line[:80]!r}. Export it again"
                )
            if line.startswith(b'{"store":'):
                store = _decode(path, line, _to_store_or_end).store
            elif not line.startswith(b'{"end":'):
                yield store, _decode(path, line, bytes.decode).rstrip("\n")


def _decode(path: Path, line: bytes, decoder: Callable[[bytes], Result]) -> Result:
    try:
        return decoder(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadExport(f"{path} has an invalid line: {error}; export it again") from error


_to_header = msgspec.json.Decoder(Header).decode
_to_store_or_end = msgspec.json.Decoder(_StoreOrEnd).decode
