"""Integers in JSON that do not fit into 64 bits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.errors import Refused
from memrelay.memory.records.data import check_integers


@pytest.mark.parametrize(
    "text",
    [
        b"18446744073709551615",
        b'{"a": [-9223372036854775808]}',
        b"1e400",
        b"123456789012345678901234567890.5",
        b"[1E30, 12345678901234567890123e2]",
        b'"123456789012345678901234567890"',
        rb'{"a\\": "\" 123456789012345678901234567890"}',
    ],
)
def test_other_numbers_and_texts_pass(text: bytes) -> None:
    check_integers(text)


@pytest.mark.parametrize(
    "text",
    [
        b"18446744073709551616",
        b"-9223372036854775809",
        rb'{"a\\": 123456789012345678901234567890}',
        b'["x", 1.5, 123456789012345678901234567890]',
        b"9" * 10_000,
    ],
)
def test_a_longer_integer_is_refused(text: bytes) -> None:
    with pytest.raises(Refused, match="send it as text"):
        check_integers(text)


@given(st.integers())
def test_the_range_is_that_of_64_bits(number: int) -> None:
    if -(2**63) <= number < 2**64:
        check_integers(b"[%d]" % number)
    else:
        with pytest.raises(Refused):
            check_integers(b"[%d]" % number)
