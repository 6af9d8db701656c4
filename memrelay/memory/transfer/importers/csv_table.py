"""CSV: a table with a line of names, and a column with the texts."""

import csv
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from memrelay.memory.transfer.importers.archives import is_container
from memrelay.memory.transfer.importers.encodings import open_text
from memrelay.memory.transfer.importers.markdown import FILES as MARKDOWN
from memrelay.memory.transfer.importers.notes import CONTENT, CREATED, PLACED, make_note
from memrelay.memory.transfer.importers.source import (
    Fault,
    LeftOut,
    RefusedFile,
    SourceInput,
    SourceItem,
    WrongOption,
    source,
)

NAME = "csv"
# Characters of a field, and of the line of names.
MAX_FIELD, MAX_HEADER = 64 << 20, 1 << 16
# A byte that is not UTF-8, as Python keeps it in a text.
NOT_UTF_8 = re.compile("[\udc80-\udcff]")
KNOWN = (*PLACED, *CREATED, *CONTENT)
DELIMITERS = (",", ";", "\t", "|")


def detect(path: Path) -> bool:
    """Return whether the first lines of a file have the same number of columns."""
    if is_container(path) or MARKDOWN.fullmatch(path.name):
        return False
    csv.field_size_limit(MAX_FIELD)
    try:
        delimiter, names = _read_header(path)
        with open_text(path) as file:
            rows = [row for row in islice(csv.reader(file, delimiter=delimiter), 20) if any(row)]
    except (RefusedFile, csv.Error):
        return False
    is_table = len(names) > 1 and len(rows) > 1 and len(rows[1]) == len(names)
    return is_table or any(name.lower() in CONTENT for name in names)


@source(NAME, detect, is_general=True)
def read(source_input: SourceInput) -> Iterator[SourceItem]:
    """Yield the rows of a table as notes."""
    path = source_input.file
    csv.field_size_limit(MAX_FIELD)
    delimiter, names = _read_header(path)
    content = _content_column(names, source_input.content)
    # The names of fields of a record are known in any case.
    names = [name.lower() if name.lower() in KNOWN else name for name in names]
    content = content.lower() if content.lower() in KNOWN else content
    for position, row in _read_rows(path, delimiter):
        if len(row) > len(names):
            yield Fault(position, f"the row has {len(row)} values instead of {len(names)}")
        elif any(row):
            fields = dict(zip(names, row, strict=False))
            yield _row(position, fields, content, path.name)


def _read_rows(path: Path, delimiter: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (position of its first line, values) of each row after the names of the columns."""
    with open_text(path) as file:
        reader = csv.reader(file, delimiter=delimiter)
        try:
            next(row for row in reader if any(row))
            begun = reader.line_num
            for row in reader:
                yield f"line {begun + 1}", row
                begun = reader.line_num
        except csv.Error as error:
            raise RefusedFile(
                f"{path} is not valid CSV at line {reader.line_num}: {error}"
            ) from error


def _row(position: str, fields: dict[str, str], content: str, file: str) -> SourceItem:
    if NOT_UTF_8.search("".join(fields.values())):
        return Fault(position, "the row is not UTF-8; save the table as CSV in UTF-8")
    try:
        return make_note(position, fields, content, (NAME, file))
    except LeftOut as error:
        return Fault(position, str(error))


def _content_column(names: list[str], given: str) -> str:
    """Return the name of the column with the texts. Raises WrongOption."""
    if given:
        if given in names:
            return given
        raise WrongOption(f"there is no column {given!r}; the columns are {', '.join(names)}")
    lower = {name.lower(): name for name in reversed(names)}
    for name in CONTENT:
        if name in lower:
            return lower[name]
    raise WrongOption(
        f"no column is named {', '.join(CONTENT)}; name the column with the texts with --content: "
        f"{', '.join(names)}"
    )


def _read_header(path: Path) -> tuple[str, list[str]]:
    """Return (delimiter, names) of the first line with text. Raises RefusedFile."""
    with open_text(path) as file:
        line = "\n"
        while line and not line.strip():
            line = file.readline(MAX_HEADER)
    line = line.strip()
    if not line or line.startswith(("{", "[", "<")) or "\0" in line:
        raise RefusedFile(f"{path} has no line with the names of its columns")
    delimiter = max(DELIMITERS, key=line.count)
    names = next(csv.reader([line], delimiter=delimiter))
    return delimiter, [name.strip() for name in names]
