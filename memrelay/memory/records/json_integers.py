"""Refuses integers beyond 64 bits in JSON text, which a parser would round to a float."""

import re

from memrelay.memory.errors import Refused

SMALLEST, LARGEST = -(2**63), 2**64 - 1
# The shortest integers beyond 64 bits have 19 digits.
LONG = re.compile(rb"[0-9]{19}")
# A string, or a number.
TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|-?[0-9][0-9.eE+-]*', re.DOTALL)
INTEGER = re.compile(rb"-?[0-9]{19,}")
MAX_DIGITS = 20
SHOWN = 40


def check_integers(text: bytes) -> None:
    """Raise Refused if valid JSON has an integer that does not fit into 64 bits."""
    if LONG.search(text) is None:
        return
    for token in TOKEN.finditer(text):
        number = token[0]
        if INTEGER.fullmatch(number) is None:
            continue
        if len(number.lstrip(b"-")) > MAX_DIGITS or not SMALLEST <= int(number) <= LARGEST:
            raise Refused(
                f"the integer {number[:SHOWN].decode()} has more than 64 bits and would be "
                "rounded; send it as text"
            )
