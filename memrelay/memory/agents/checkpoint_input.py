"""Fields that the operations on checkpoints share, and the bytes that calls bring in base64."""

from base64 import b64decode, b64encode
from binascii import Error
from typing import Annotated

from pydantic import Field

from memrelay.memory.errors import Refused
from memrelay.memory.files.export import MAX_LINE
from memrelay.memory.sqlite.store import Transaction

MAX_NAME = 512
MAX_KEYS = 1000
Name = Annotated[str, Field(max_length=MAX_NAME)]
GivenName = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Names = Annotated[tuple[GivenName, ...], Field(max_length=MAX_KEYS)]
Size = Annotated[int, Field(ge=0, le=MAX_LINE)]
Upload = Annotated[str, Field(max_length=64)]


def keep_piece(tx: Transaction, of: str, at: int, piece: str) -> bool:
    """Keep a piece of the data of a later call. Return whether it follows the earlier ones."""
    if not of:
        raise Refused("a piece needs `of`, a random name for the pieces of one call")
    return tx.imports.keep_piece(of, at, piece)


def take_data(tx: Transaction, of: str, at: int, data: str) -> bytes | None:
    """Return the bytes of earlier pieces and of `data`, None if pieces are missing.

    Raises Refused: they are not base64.
    """
    beginning = tx.imports.take_pieces(of) if at else ""
    if len(beginning) != at:
        return None
    try:
        return b64decode(beginning + data, validate=True)
    except Error as error:
        raise Refused(f"`data` is not base64: {error}") from error


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    """Return the consecutive values of these sizes. Raises Refused: they do not fit the data."""
    if sum(sizes) != len(data):
        raise Refused(f"`data` has {len(data)} bytes, but the sizes add up to {sum(sizes)}")
    values, at = [], 0
    for size in sizes:
        values.append(data[at : at + size])
        at += size
    return values


def to_base64(data: bytes) -> str:
    """Return bytes as base64."""
    return b64encode(data).decode()
