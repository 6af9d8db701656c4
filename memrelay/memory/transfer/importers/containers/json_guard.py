"""Check and mask JSON bytes on their way to a streaming parser.

The parser (yajl) stops at NaN and at numbers beyond 64 bits, replaces a lone surrogate by `?`, and
has no limit of depth. The guard enforces the limits and masks such values as strings, so that
one item does not make the rest of the file unreadable.
"""

import json
import re
import secrets
from typing import IO, Any

import numpy as np

from memrelay.memory.transfer.importers.source import RefusedFile

MAX_DEPTH = 64
# Bytes of one item, and of one token outside of texts.
MAX_ITEM, MAX_TOKEN = 64 << 20, 1 << 16
CHUNK = 1 << 16
BOM = b"\xef\xbb\xbf"
NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
# Set in `[` and `{`, not in `]` and `}`.
OPENS = 0x02
HIGH = rb"u[dD][89abAB][0-9a-fA-F]{2}"
PAIR = re.compile(rb"\\" + HIGH + rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}")
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
# An escaped backslash, a pair, or in group 1 a lone surrogate.
ESCAPE = re.compile(
    rb"\\(?:\\|" + HIGH + rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2}))"
)
# Outside of texts: a value that the parser does not read. First a fast search, in which `0` stands
# for each digit, `e` for an exponent and `N` for NaN and Infinity.
CLASSES = bytes.maketrans(b"123456789EI", b"000000000eN")
SUSPECTS = (b"N", b"0" * 19, b"e000", b"e+000")
LONG_NUMBER = re.compile(rb"-?\d{19,}|-?\d+(?:\.\d+)?[eE]\+?\d{3,}|-?Infinity|NaN")
# A text, or in group 1 a number.
TOKEN = re.compile(
    rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)|(-?\d[\d.eE+-]*|-?Infinity|NaN)', re.DOTALL
)
WORD = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.+-"


class JsonGuard:
    """A readable stream of the masked bytes of a JSON document."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream = stream
        self._name = name
        # Random, so that no text of the file looks like a mask.
        self._mask = secrets.token_hex(12)
        self._masked = re.compile(self._mask + r"([sn])([^;]*);")
        self._rest = b""
        self._in_text = self._is_inside_text = False
        self._depth = 0
        self._read = 0
        self._item_began = 0
        self.has_masks = False

    def read(self, size: int = CHUNK) -> bytes:
        """Return some more bytes, b"" at the end. Raises RefusedFile."""
        blocks: list[bytes] = []
        while size:
            given = self._stream.read(CHUNK)
            if not self._read and given.startswith(BOM):
                given = given[len(BOM) :]
            self._read += len(given)
            if self._read - self._item_began > MAX_ITEM:
                raise RefusedFile(
                    f"{self._name} has more than {MAX_ITEM >> 20} MiB without a complete item; "
                    "check whether it is the right file"
                )
            blocks.append(self._next(self._rest + given, not given))
            # The parser scans a text again for each block that it gets of it.
            if not given or (blocks[-1] and not self._is_inside_text):
                break
        return b"".join(blocks)

    def end_item(self) -> None:
        """Note that an item is complete. The next one may have as many bytes again."""
        self._item_began = self._read

    def unmask(self, value: Any) -> Any:
        """Return a parsed value with the original values in place of masks."""
        match value:
            case str() if self._mask in value:
                found = self._masked.fullmatch(value)
                if found is not None and found[1] == "n":
                    return _to_number(found[2])
                return self._masked.sub(lambda found: chr(int(found[2], 16)), value)
            case dict():
                return {self.unmask(key): self.unmask(held) for key, held in value.items()}
            case list():
                return [self.unmask(held) for held in value]
        return value

    def _next(self, block: bytes, is_last: bool) -> bytes:
        end = len(block) if is_last else _last_escape(block)
        # Only the texts that begin or end in the block matter: escapes are complete.
        parts = block[:end].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        ends_in_text = self._in_text ^ (len(parts) % 2 == 0)
        if not (is_last or ends_in_text):
            # A number or a word may continue in the next block.
            end = len(block[:end].rstrip(WORD))
            if len(block) - end >= MAX_TOKEN:
                raise RefusedFile(
                    f"{self._name} has a number of more than {MAX_TOKEN:,} characters"
                )
        bare = b" ".join(parts[int(self._in_text) :: 2])
        self._check_depth(bare)
        taken, self._rest = block[:end], block[end:]
        classes = bare.translate(CLASSES)
        if any(suspect in classes for suspect in SUSPECTS):
            taken = self._mask_numbers(taken)
        if SURROGATE.search(taken):
            taken = self._mask_surrogates(taken)
        self._is_inside_text = self._in_text and len(parts) == 1
        self._in_text = ends_in_text
        return taken

    def _check_depth(self, bare: bytes) -> None:
        brackets = np.frombuffer(bare.translate(None, NOT_BRACKETS), np.uint8)
        if not len(brackets):
            return
        depths = self._depth + np.cumsum(np.where(brackets & OPENS, 1, -1))
        if depths.max() > MAX_DEPTH:
            raise RefusedFile(
                f"{self._name} is nested more than {MAX_DEPTH} deep before byte {self._read}; "
                "remove the nested part"
            )
        self._depth = int(depths[-1])

    def _mask_numbers(self, block: bytes) -> bytes:
        def replace(found: re.Match[bytes]) -> bytes:
            if found[1] is None or not LONG_NUMBER.fullmatch(found[1]):
                return found[0]
            self.has_masks = True
            return b'"%sn%s;"' % (self._mask.encode(), found[1])

        opening = b'"' if self._in_text else b""
        return TOKEN.sub(replace, opening + block)[len(opening) :]

    def _mask_surrogates(self, block: bytes) -> bytes:
        if not SURROGATE.search(PAIR.sub(b"", block.replace(b"\\\\", b"\0"))):
            return block

        def replace(found: re.Match[bytes]) -> bytes:
            if found[1] is None:
                return found[0]
            self.has_masks = True
            return b"%ss%s;" % (self._mask.encode(), found[1])

        return ESCAPE.sub(replace, block)


def _last_escape(block: bytes) -> int:
    """Return where a block can be cut: before an escape that may continue in the next block."""
    end = len(block)
    # An escape has at most 12 bytes, a pair of surrogates.
    for width in (6, 12):
        at = block.rfind(b"\\", max(len(block) - width, 0), end)
        if at < 0:
            return end
        run = at + 1 - len(block[: at + 1].rstrip(b"\\"))
        if run % 2 == 0:
            return end
        tail = block[at : at + 6]
        is_whole = len(tail) == 6 if tail[1:2] == b"u" else len(tail) > 1
        if is_whole and not re.match(rb"\\" + HIGH, tail):
            return end
        end = at
    return end


def _to_number(text: str) -> float | int:
    try:
        found: float | int = json.loads(text)
    except ValueError:
        # Python reads at most 4,300 digits.
        return float("inf")
    return found
