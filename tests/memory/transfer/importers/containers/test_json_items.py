"""The elements of JSON documents, compared with `json.loads`, and the limits of a document."""

import io
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memrelay.memory.transfer.importers.json_items import MAX_ITEM, JsonGuard, iterate
from memrelay.memory.transfer.importers.source import Fault, RefusedFile

FRAGMENTS = st.sampled_from(
    [
        "\\",
        '"',
        "a",
        "\ud83d",
        "\ude00",
        "\U0001f600",
        "é",
        "NaN",
        "[",
        "}",
        "\n",
        "u",
        "\0",
        "1e999",
    ]
)
TEXTS = st.lists(FRAGMENTS, max_size=12).map("".join)
NUMBERS = st.one_of(
    st.integers(min_value=-(10**40), max_value=10**40),
    st.floats(),
    st.sampled_from([2**63, 2**64, 1e300, 1.5e-200, 0.12345678901234567]),
)
VALUES = st.recursive(
    st.one_of(TEXTS, NUMBERS, st.none(), st.booleans()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


class SlowFile(io.BytesIO):
    """A file that returns a few bytes per read."""

    width = 7

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self.width)


def read(text: str | bytes, *lists: str) -> list[tuple[str, Any]]:
    content = text if isinstance(text, bytes) else text.encode()
    return list(iterate(io.BytesIO(content), "f.json", lists))


@given(values=st.lists(VALUES, max_size=5), indent=st.sampled_from([None, 1]))
def test_the_elements_are_those_of_json_loads(values: list[Any], indent: int | None) -> None:
    text = json.dumps(values, indent=indent)

    assert json.dumps([value for _, value in read(text)]) == json.dumps(json.loads(text))


@settings(max_examples=60)
@given(value=VALUES, width=st.integers(1, 13))
def test_no_boundary_of_a_block_changes_a_value(value: Any, width: int) -> None:
    text = json.dumps([value, value])
    file = SlowFile(text.encode())
    file.width = width
    guard = JsonGuard(file, "f.json")
    blocks = list(iter(guard.read, b""))

    assert json.dumps(guard.unmask(json.loads(b"".join(blocks)))) == json.dumps(json.loads(text))


def test_the_lists_of_an_object_are_read_in_the_order_asked_for() -> None:
    text = '{"b": [3], "other": {"a": [9]}, "a": [1, {"x": 2}], "n": 1}'

    assert read(text, "a", "b") == [("a[0]", 1), ("a[1]", {"x": 2}), ("b[0]", 3)]
    assert read(text, "c") == [("line 1", json.loads(text))]
    assert read('{"a": []}', "a") == []


def test_a_byte_order_mark_is_no_part_of_the_document() -> None:
    assert read(b"\xef\xbb\xbf [1]") == [("[0]", 1)]
    assert read(b'\xef\xbb\xbf{"a": 1}\n{"a": 2}') == [("line 1", {"a": 1}), ("line 2", {"a": 2})]


def test_a_malformed_line_is_a_fault_of_that_line() -> None:
    lines = ['{"a": 1}', "{", "[" * 65 + "]" * 65, "", '{"a": NaN}', "[" * 100_000, "9" * 5000]

    found = dict(read("\n".join(lines)))

    assert found["line 1"] == {"a": 1} and str(found["line 5"]) == "{'a': nan}"
    assert all(isinstance(found[f"line {number}"], Fault) for number in (2, 3, 6, 7))
    assert "line 4" not in found


@pytest.mark.parametrize(
    "text",
    [b"", b"x", b"[1", b"[1,]", b"[1] 2", b'["\\x"]', b'["\xff"]', b'["\xed\xa0\x80"]', b"[nan]"],
)
def test_an_invalid_document_is_refused(text: bytes) -> None:
    with pytest.raises(RefusedFile, match=re.escape("f.json is not")):
        read(text)


@pytest.mark.parametrize("opening", ["[", '[{"a": '])
def test_a_document_is_nested_at_most_64_deep(opening: str) -> None:
    levels = 64 // opening.count("[") // (1 + opening.count("{"))
    closing = {"[": "]", '[{"a": ': "}]"}[opening]
    good = opening * levels + "1" + closing * levels

    assert json.dumps([value for _, value in read(good)]) == json.dumps(json.loads(good))
    with pytest.raises(RefusedFile, match="more than 64 deep"):
        read(f"[{good}]")


def test_brackets_in_a_text_are_not_depth() -> None:
    text = json.dumps(['"' + "[{" * 100, "\\" + "[" * 100])

    assert [value for _, value in read(text)] == json.loads(text)


def test_a_document_of_brackets_is_refused_at_once() -> None:
    file = io.BytesIO(b"[" * (8 << 20))

    with pytest.raises(RefusedFile, match="more than 64 deep"):
        list(iterate(file, "f.json", ()))
    assert file.tell() <= 1 << 20


def test_one_item_has_at_most_64_mib() -> None:
    file = io.BytesIO(b'["' + b"a" * (MAX_ITEM + 10) + b'"]')

    with pytest.raises(RefusedFile, match="64 MiB without a complete item"):
        list(iterate(file, "f.json", ()))


def test_a_number_without_end_is_refused() -> None:
    with pytest.raises(RefusedFile, match="a number of more than"):
        read("[" + "1" * 300_000 + "]")
