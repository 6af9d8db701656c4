"""Write and read export files: a header line, the lines of each store, and a last line with counts
and a digest.

The digest is the SHA-256 of all lines between the first and the last. It reveals a truncated or
changed file.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, TypeVar, cast

import msgspec
from msgspec import Raw, Struct, defstruct

from memrelay.memory.engine.split_texts import MAX_CHARACTERS
from memrelay.memory.errors import BadExport
from memrelay.memory.records.export_fields import LineWriter
from memrelay.memory.transfer.lines import ROW_TABLES, Line, find_unknown_type, to_json

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
    """The last line. `FullEnd` adds the digest and the counts of the models' rows."""

    records: int
    versions: int

    def count_rows(self, field: str) -> int:
        """Return the count of rows in that field."""
        count: int = getattr(self, field)
        return count

    @property
    def digest(self) -> str:
        """Return the SHA-256 of the lines."""
        digest: str = getattr(self, DIGEST)
        return digest


DIGEST = "sha256"


# Rows that hold records have a count in each file, the others only if there are some.
REQUIRED: list[Any] = [
    (table.lines.count, int) for table in ROW_TABLES.values() if table.lines.holds_records
]
OPTIONAL: list[Any] = [
    (table.lines.count, int, 0) for table in ROW_TABLES.values() if not table.lines.holds_records
]
FullEnd = cast(
    type[End],
    defstruct(
        "FullEnd",
        [*REQUIRED, (DIGEST, str), *OPTIONAL],
        bases=(End,),
        frozen=True,
        omit_defaults=True,
    ),
)


class _StoreOrEnd(Struct, frozen=True):
    # The memory_id of the lines that follow, with `${pipeline_uid}`.
    store: str = ""
    end: Raw = Raw(b"null")


def write_export(
    file: LineWriter, header: Header, stores: Iterable[tuple[str, Iterable[Line]]]
) -> End:
    """Write all lines and return the last one. `stores` are (name, lines). Raises OSError."""
    digest, counts = sha256(), Counter[str]()
    file.write(to_json(header) + b"\n")
    for name, lines in stores:
        _write_line(file, digest, to_json({"store": name}))
        for line in lines:
            counts[line.type] += 1
            _write_line(file, digest, to_json(line))
    end = FullEnd(
        records=counts["record"],
        versions=counts["version"],
        **{DIGEST: digest.hexdigest()},
        **{table.lines.count: counts[name] for name, table in ROW_TABLES.items()},
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
            unknown = unknown or (find_unknown_type(chunk) if is_start else "")
            last, is_start = chunk, chunk.endswith(b"\n")
    try:
        end = _to_end(_to_store_or_end(last).end) if last.endswith(b"\n") else None
    except msgspec.MsgspecError:
        end = None
    if end is None:
        raise BadExport(
            f"{path} is truncated: the last line with counts is missing; export it again"
        )
    if end.digest != digest.hexdigest():
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


def read_export(path: Path, longest: int = MAX_CHARACTERS) -> Iterator[tuple[str, str]]:
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
_to_end = msgspec.json.Decoder(FullEnd).decode
