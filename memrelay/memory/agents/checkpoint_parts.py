"""The parts of checkpoints: their numbers as text, and the bytes of one part."""

import zlib
from collections.abc import Iterable, Iterator

PLAIN, COMPRESSED = b"\0", b"\1"
# Larger values are compressed.
MAX_PLAIN = 1024


def pack(value: bytes) -> bytes:
    """Return a value as it is stored: a byte 0 and the value, or a byte 1 and compressed data."""
    if len(value) > MAX_PLAIN:
        packed = COMPRESSED + zlib.compress(value)
        if len(packed) <= len(value):
            return packed
    return PLAIN + value


def unpack(stored: bytes) -> bytes:
    """Return the value of stored bytes. Raises ValueError: they are no stored value."""
    if stored[:1] == PLAIN:
        return stored[1:]
    try:
        return zlib.decompress(stored[1:]) if stored[:1] == COMPRESSED else _refuse(stored)
    except zlib.error as error:
        raise ValueError(f"a stored value of {len(stored)} bytes is damaged: {error}") from error


def _refuse(stored: bytes) -> bytes:
    raise ValueError(f"a stored value must begin with a byte 0 or 1, not {stored[:1]!r}")


def runs_of(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the (first, last) of each run of consecutive numbers, in order."""
    first = last = None
    for number in numbers:
        if first is None or last is None:
            first = last = number
        elif number == last + 1:
            last = number
        else:
            yield first, last
            first = last = number
    if first is not None and last is not None:
        yield first, last


def to_text(numbers: Iterable[int]) -> str:
    """Return numbers as text, such as 1-40,43."""
    return ",".join(
        str(first) if first == last else f"{first}-{last}" for first, last in runs_of(numbers)
    )


def from_text(text: str) -> list[int]:
    """Return the numbers of a text."""
    numbers: list[int] = []
    for run in text.split(",") if text else ():
        first, _, last = run.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return numbers
