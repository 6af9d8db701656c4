"""The lines of an export: records, their earlier states and named memories, each a JSON object that
says which it is.

What carries the pipeline's uid, ids of named memories and scopes, has `${pipeline_uid}` in its
place, and so fits another one.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO, Annotated, Any, TypeVar

import msgspec
import orjson
from msgspec import Meta, Struct
from msgspec.structs import replace
from pydantic import ValidationError

from memrelay.memory.errors import BadExport, Refused
from memrelay.memory.records.data import LARGEST, SMALLEST, as_text, checked
from memrelay.memory.records.ids import HEX, uid_of_store
from memrelay.memory.sqlite.memories import Memory
from memrelay.memory.sqlite.versions import What
from memrelay.memory.timestamps import LAST_MS

UID = "${pipeline_uid}"
LONGEST = 1 << 30  # characters of a line; a store's row has 10^9 bytes at most
Int = Annotated[int, Meta(ge=SMALLEST, le=LARGEST)]
Number = Annotated[int, Meta(ge=1, le=2**62)]  # with room for changes
Time = Annotated[
    int, Meta(ge=0, le=LAST_MS)
]  # Unix ms: what no face could tell would be in the way of every list
Guid = Annotated[str, Meta(min_length=1, max_length=128)]
MemoryIdent = Annotated[str, Meta(pattern=f"^mem_.+_{HEX.pattern}$")]


class Exported(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A record as it is or was, its columns as they are stored. `tags` and `data` are JSON, times
    Unix ms."""

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
    content: str | None = (
        # None in an earlier state with which the next one begins, or in which the record was not
        # there
        None
    )


class Ended(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What ended an earlier state."""

    what: What
    changed_at: Time
    actor: str
    reason: str = ""
    length: Int | None = None  # of its content, characters; None where the record was not there


class Confirmations(Struct, frozen=True, forbid_unknown_fields=True):
    """How often an entry of a named memory was written again, and when last, Unix ms."""

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
        """As its table has it."""
        return Memory(
            self.id, self.name, self.description, self.tags, self.created_at, self.updated_at
        )


class Line(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One of these."""

    record: Exported | None = None
    confirmed: Confirmations | None = None  # beside a record
    version: Exported | None = None
    ended: Ended | None = None  # beside a version
    memory: ExportedMemory | None = None

    @property
    def name(self) -> str:
        """By which it is told."""
        if self.record is not None:
            return f"record {self.record.guid}"
        if self.version is not None:
            return f"state {self.version.number} of record {self.version.guid}"
        return f"memory {self.memory.id}" if self.memory is not None else "nothing"

    def without_uid(self, memory_id: str) -> "Line":
        """As it travels, from that store."""
        return _renamed(self, uid_of_store(memory_id), UID)

    def with_uid(self, memory_id: str) -> "Line":
        """As it is in that store."""
        return _renamed(self, UID, uid_of_store(memory_id))


def _renamed(line: Line, before: str, after: str) -> Line:
    changed: dict[str, Any] = {}
    for name in ("record", "version"):
        if (one := getattr(line, name)) is not None and before in one.scope:
            changed[name] = replace(one, scope=of_other(one.scope, before, after))
    if line.memory is not None:
        changed["memory"] = replace(line.memory, id=of_other(line.memory.id, before, after))
    return replace(line, **changed) if changed else line


def of_other(name: str, before: str, after: str) -> str:
    """The id of a named memory, or the `memory_id` of a store, with another uid; any other name as
    it is."""
    own = f"mem_{before}_"
    if name.startswith(own) and HEX.fullmatch(name, len(own)):
        return f"mem_{after}_{name[len(own) :]}"
    folder = f"instances/{before}/"
    return f"instances/{after}/{name.removeprefix(folder)}" if name.startswith(folder) else name


def read_line(text: str) -> Line:
    """What a line says, its JSON as a store writes it. Raises Refused."""
    try:
        line = _to_line(text)
        if line.record is not None:
            line = replace(line, record=_as_stored(line.record))
        if line.version is not None:
            line = replace(line, version=_as_stored(line.version))
        if line.memory is not None:
            _to_tags(line.memory.tags or "[]")
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        raise Refused(
            f"this is no line of an export: {error}; it begins with {text[:80]!r}"
        ) from error
    if [line.record, line.version, line.memory].count(None) != 2 or not _is_whole(line):
        raise Refused(
            f"a line of an export has a whole `record`, `version` or `memory`, and one of them; this begins with "
            f"{text[:80]!r}"
        )
    return line


def _as_stored(one: Exported) -> Exported:
    """With other JSON of the same meaning a text would not be found, as where it is erased."""
    try:
        data = as_text(checked(_to_data(one.data or "{}")))
    except ValidationError as error:
        raise Refused(
            f"`data` of record {one.guid!r} {error.errors(include_url=False)[0]['msg']}"
        ) from error
    return replace(one, tags=orjson.dumps(_to_tags(one.tags)).decode(), data=data)


def _is_whole(line: Line) -> bool:
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


_to_line = msgspec.json.Decoder(Line).decode
_to_tags = msgspec.json.Decoder(list[str]).decode
_to_data = msgspec.json.Decoder(dict[str, Any]).decode
to_json = msgspec.json.Encoder().encode


# The file of an export: a line that says what it is, what is remembered by store, and a line with
# counts and a digest.
#
# The digest is the SHA-256 of all lines between the first and the last, so a file that was cut or
# changed is told.

FORMAT = 1
PIECE = (
    1 << 20
)  # bytes that are read together where a file is checked, which may have anything in it
Result = TypeVar("Result")


class Header(Struct, frozen=True):
    """The first line."""

    memrelay_export: int  # the format
    made_at: int  # Unix ms
    memrelay: str  # the version that made it
    pipeline_uid: str
    pipeline_name: str


class End(Struct, frozen=True):
    """The last line."""

    records: int
    versions: int
    memories: int
    sha256: str


class _Written(Struct, frozen=True):
    store: str = ""  # the memory_id of what follows, with `${pipeline_uid}`
    end: End | None = None


def write_export(
    file: IO[bytes], header: Header, stores: Iterable[tuple[str, Iterable[Line]]]
) -> End:
    """Writes all lines; `stores` are (name, lines). Raises OSError."""
    digest, counts = sha256(), Counter[str]()
    file.write(to_json(header) + b"\n")
    for name, lines in stores:
        _put(file, digest, to_json({"store": name}))
        for line in lines:
            counts["records"] += line.record is not None
            counts["versions"] += line.version is not None
            counts["memories"] += line.memory is not None
            _put(file, digest, to_json(line))
    end = End(counts["records"], counts["versions"], counts["memories"], digest.hexdigest())
    file.write(to_json({"end": end}) + b"\n")
    return end


def _put(file: IO[bytes], digest: Any, line: bytes) -> None:
    file.write(line + b"\n")
    digest.update(line + b"\n")


def verify_export(path: Path) -> End:
    """That the file is whole, and of a format that is known. Raises BadExport and OSError."""
    digest, last = (
        sha256(),
        b"",
    )  # the last line, or what there is of it: one that is longer than a piece has no counts
    with path.open("rb") as file:
        if not file.seekable():
            raise BadExport(
                f"{path} is a pipe, and an export is read twice, first to check it: write it into a file, and name "
                "that"
            )
        _check_header(path, file.readline(PIECE))
        while piece := file.readline(PIECE):
            digest.update(last)
            last = piece
    try:
        end = _to_written(last).end if last.endswith(b"\n") else None
    except msgspec.MsgspecError:
        end = None
    if end is None:
        raise BadExport(f"{path} has no last line with counts: it was cut; export it again")
    if end.sha256 != digest.hexdigest():
        raise BadExport(f"{path} is not what was exported: its digest is another; export it again")
    return end


def _check_header(path: Path, line: bytes) -> None:
    try:
        header = _to_header(line)
    except msgspec.MsgspecError as error:
        raise BadExport(
            f"{path} is no export: {error}; `memrelay export --records` makes one"
        ) from error
    if header.memrelay_export != FORMAT:
        raise BadExport(
            f"{path} has the format {header.memrelay_export}, of another Memrelay ({header.memrelay}); import it "
            "with that one"
        )


def read_export(path: Path, longest: int = LONGEST) -> Iterator[tuple[str, str]]:
    """(name of a store, line) of a file that was verified, one after the other. Raises BadExport
    and OSError.

    A line of more bytes than `longest` is not read.
    """
    with path.open("rb") as file:
        file.readline()
        store = ""
        while line := file.readline(longest + 1):
            if len(line) > longest:
                raise BadExport(
                    f"{path} has a line of more than {longest} bytes, which no import takes; it begins with "
                    f"{line[:80]!r}. Export it again"
                )
            if line.startswith(b'{"store":'):
                store = _read(path, line, _to_written).store
            elif not line.startswith(b'{"end":'):
                yield store, _read(path, line, bytes.decode).rstrip("\n")


def _read(path: Path, line: bytes, as_what: Callable[[bytes], Result]) -> Result:
    try:
        return as_what(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadExport(
            f"{path} has a line that is none of an export: {error}; export it again"
        ) from error


_to_header = msgspec.json.Decoder(Header).decode
_to_written = msgspec.json.Decoder(_Written).decode
