"""Zep CE: its tables of users, sessions and messages as SQL, CSV or JSON, and its REST answers."""

import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from memrelay.memory.transfer.importers.containers.documents import (
    BEGINNING,
    begins_with,
    list_of,
    read_documents,
    read_list,
)
from memrelay.memory.transfer.importers.fields import (
    fields_of,
    read_content,
    read_position,
    read_text,
    read_time,
    without_empty,
)
from memrelay.memory.transfer.importers.items import Fault, Found, LeftOut, Turn
from memrelay.memory.transfer.importers.source import Given, RefusedFile, source
from memrelay.memory.transfer.importers.zep_rows import Row, read_csv, read_sql

NAME = "zep"
TABLES = ("users", "sessions", "messages")
# Facts of an answer of the API, which Zep derives from messages.
FACTS = ("facts", "relevant_facts")
# Digits of the number of a row.
MAX_DIGITS = 18
DUMP = "PostgreSQL database dump"
NOTE = (
    "the names, addresses and metadata of Zep's users and sessions are not imported; "
    "each turn has its user as owner and its session as thread"
)


def detect(path: Path) -> bool:
    """Return whether a file is a dump, or has messages of Zep."""
    if path.is_dir():
        return (path / "messages.csv").is_file()
    with path.open("rb") as file:
        text = file.read(BEGINNING).decode(errors="replace").lstrip("\ufeff \t\r\n")
    first = text.partition("\n")[0].split(",")
    is_csv = {"session_id", "content", "role"} <= {name.strip('"\r') for name in first}
    is_dump = text.startswith("--") and DUMP in text
    return is_csv or is_dump or begins_with(path, "role_type content", "user_id project_uuid")


class _Session(NamedTuple):
    user: str
    # Time of the deletion as in the source.
    deleted_at: object


@source(NAME, detect)
def read(given: Given) -> Iterator[Found]:
    """Yield the messages as turns.

    A folder may hold `messages.csv` and `sessions.csv`. Without sessions, the column `user_id` of a
    message is its owner.
    """
    sessions, is_empty = _read_sessions(given.file), True
    for row in _read_rows(given.file):
        if row.table == "messages":
            is_empty = False
            yield _turn(row, sessions)
        elif row.table in FACTS:
            yield Fault(row.position, "a fact that Zep derived from messages is not imported")
        elif row.fault:
            yield Fault(row.position, row.fault)
    if sessions:
        given.note(NOTE)
    if is_empty:
        given.note("the file has no messages of Zep")


def _read_sessions(path: Path) -> dict[str, _Session]:
    """Return the sessions by id. They may follow their messages in the file."""
    return {
        str(row.fields.get("session_id")): _Session(
            str(row.fields.get("user_id") or ""), row.fields.get("deleted_at")
        )
        for row in _read_rows(path, ("sessions",))
        if row.table == "sessions"
    }


def _read_rows(path: Path, tables: Collection[str] = TABLES) -> Iterator[Row]:
    """Yield the rows of a file, at least those of the tables."""
    if path.is_dir():
        yield from _read_folder(path)
        return
    with path.open("rb") as file:
        beginning = file.read(BEGINNING).removeprefix(b"\xef\xbb\xbf").lstrip()
    if beginning.startswith((b"{", b"[")):
        yield from _read_json(path)
    elif beginning.startswith((b"--", b"SET ", b"INSERT ", b"\\", b"BEGIN")):
        yield from read_sql(path, tables)
    elif "messages" in tables:
        yield from read_csv(path, "messages")


def _read_folder(folder: Path) -> Iterator[Row]:
    if not (folder / "messages.csv").is_file():
        raise RefusedFile(f"{folder} has no file messages.csv; export the table `messages` as CSV")
    for table in TABLES:
        if (folder / f"{table}.csv").is_file():
            for row in read_csv(folder / f"{table}.csv", table):
                yield row._replace(position=f"{table}.csv, {row.position}")


def _read_json(path: Path) -> Iterator[Row]:
    for position, value in read_documents(path, *TABLES):
        if isinstance(value, Fault):
            yield Row(position, "", {}, value.reason)
        elif key := list_of(position):
            yield _to_row(position, key, value, {})
        elif isinstance(value, dict) and any(isinstance(value.get(key), list) for key in TABLES):
            yield from _read_document(position, value, path.stem)
        elif isinstance(value, dict) and "content" not in value and "session_id" in value:
            yield Row(position, "sessions", value)
        else:
            yield _to_row(position, "messages", value, {})


def _read_document(position: str, document: dict[str, Any], stem: str) -> Iterator[Row]:
    """Yield the rows of tables, or of an answer of the API. That does not name the session, so the
    name of the file does.
    """
    inherited = without_empty(document, "session_id", "user_id")
    if "sessions" not in document and "users" not in document:
        inherited = {"session_id": stem} | inherited
    for table in (*TABLES, *FACTS):
        for place, value in read_list(document, table, position):
            yield _to_row(place, table, value, inherited if table == "messages" else {})


def _to_row(position: str, table: str, value: object, inherited: dict[str, Any]) -> Row:
    try:
        return Row(position, table, inherited | fields_of(value))
    except LeftOut as error:
        return Row(position, table, {}, str(error))


def _turn(row: Row, sessions: dict[str, _Session]) -> Found:
    try:
        return _to_turn(row, sessions)
    except LeftOut as error:
        return Fault(row.position, str(error))


def _to_turn(row: Row, sessions: dict[str, _Session]) -> Turn:
    if row.fault:
        raise LeftOut(row.fault)
    fields = row.fields
    thread, ident = read_text(fields, "session_id"), read_text(fields, "uuid")
    if not thread or not ident:
        raise LeftOut(f"the message has no `{'uuid' if thread else 'session_id'}`")
    session = sessions.get(thread, _Session(read_text(fields, "user_id"), None))
    role, kind = read_text(fields, "role"), read_text(fields, "role_type")
    return Turn(
        position=row.position,
        id=ident,
        created_at=read_time(fields.get("created_at")),
        updated_at=read_time(fields.get("updated_at")),
        deleted_at=_first_time(fields.get("deleted_at"), session.deleted_at),
        text=read_content(fields, "content"),
        thread=thread,
        seq=_sequence(fields),
        source=role or (kind if kind != "norole" else ""),
        owner=session.user or None,
        data=_data(fields),
    )


def _first_time(*given: object) -> int | None:
    """Return the first time that is present. Raises LeftOut."""
    return next((found for one in given if (found := read_time(one)) is not None), None)


def _sequence(fields: dict[str, Any]) -> int:
    """Return the number of the row, or its time in an answer of the API."""
    number = read_text(fields, "id")
    if not number:
        return read_position(fields, 0)
    if not number.isascii() or not number.isdecimal() or len(number) > MAX_DIGITS:
        raise LeftOut(f'the id "{number[:40]}" is not a number')
    return int(number)


def _data(fields: dict[str, Any]) -> dict[str, Any]:
    metadata, tokens = fields.get("metadata"), read_text(fields, "token_count")
    if isinstance(metadata, str) and metadata:
        try:
            metadata = json.loads(metadata)
        except ValueError as error:
            raise LeftOut("`metadata` is not valid JSON") from error
    count = {"token_count": int(tokens)} if tokens.isdecimal() and tokens != "0" else {}
    return without_empty(fields | {"metadata": metadata}, "role_type", "metadata") | count
