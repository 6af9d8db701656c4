"""The file of an export: a line that says what it is, what is remembered by store, and a line with
counts and a digest.

The digest is the SHA-256 of all lines between the first and the last, so a file that was cut or
changed is told.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
from msgspec import Struct

from memory.errors import BadExport
from memory.exported import LONGEST, Line, to_json

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
