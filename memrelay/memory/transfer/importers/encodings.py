"""Text files in UTF-16, as PowerShell writes them, are read as UTF-8."""

import codecs
import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, cast

from memrelay.memory.transfer.importers.source import RefusedFile

CHUNK = 1 << 20
# Bytes of a file in UTF-16 that stay in memory.
MAX_IN_MEMORY = 16 << 20
UTF_32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


@contextmanager
def as_utf8(file: IO[bytes], name: str) -> Iterator[IO[bytes]]:
    """Return a file at its beginning and with its text in UTF-8.

    Raises RefusedFile: the text is UTF-32 or damaged UTF-16.
    """
    file.seek(0)
    beginning = file.read(4)
    file.seek(0)
    if beginning.startswith(UTF_32):
        raise RefusedFile(f"{name} is UTF-32; save it as UTF-8")
    encoding = _find_utf_16(beginning)
    if not encoding:
        yield file
        return
    with SpooledTemporaryFile(MAX_IN_MEMORY) as text:
        decoder = codecs.getincrementaldecoder(encoding)()
        try:
            # A file that ends within a character is cut: its last line is a separate fault.
            while chunk := file.read(CHUNK):
                text.write(decoder.decode(chunk).encode())
        except UnicodeError as error:
            raise RefusedFile(f"{name} is damaged UTF-16; save it as UTF-8") from error
        text.seek(0)
        yield cast("IO[bytes]", text)


def _find_utf_16(beginning: bytes) -> str:
    """Return the encoding by the byte order mark, or by the zeros of ASCII characters."""
    if beginning.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    zeros = [byte == 0 for byte in beginning]
    if zeros == [False, True, False, True]:
        return "utf-16-le"
    return "utf-16-be" if zeros == [True, False, True, False] else ""


@contextmanager
def open_text(path: Path, newline: str = "") -> Iterator[IO[str]]:
    """Open a text file in UTF-8 or UTF-16. Other bytes become lone surrogates.

    Raises RefusedFile and OSError.
    """
    with path.open("rb") as file, as_utf8(file, path.name) as text:
        yield io.TextIOWrapper(
            cast("io.BufferedReader", text), "utf-8-sig", "surrogateescape", newline
        )
