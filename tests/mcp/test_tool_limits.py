"""Answers within 25,000 tokens: lists have fewer items, and long texts continue."""

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.web.mcp.tools.answer_size import cut_text
from tests.support.mcp_tools import ToolCaller, tools_on_file


@pytest.fixture
def call(tmp_path: Path) -> Iterator[ToolCaller]:
    with tools_on_file(tmp_path / "notes.db") as caller:
        yield caller


@pytest.mark.parametrize("character", ["x", "é", "😀", '"', "\n", "\x01"])
def test_a_long_text_is_read_in_parts(call: ToolCaller, character: str) -> None:
    text = "".join(f"{number}{character * 7}" for number in range(20_000))
    guid = call("memory_write", content=text)["guid"]

    part = call("memory_read", guid=guid)
    parts = [part["content"]]
    while "next_offset" in part:
        assert part["content_length"] == len(text)
        assert f"guid {guid} and offset {part['next_offset']}" in part["to_continue"]
        part = call("memory_read", guid=guid, offset=part["next_offset"])
        parts.append(part["content"])

    assert len(parts) > 1 and "".join(parts) == text


def test_an_offset_behind_the_text_reads_nothing(call: ToolCaller) -> None:
    guid = call("memory_write", content="tea")["guid"]

    part = call("memory_read", guid=guid, offset=99)

    assert (part["content"], part["content_length"]) == ("", 3) and "next_offset" not in part


def test_a_list_of_long_records_has_shorter_pages(call: ToolCaller) -> None:
    sizes = [30_000, 30_000, 30_000, 100_000, 10, 10]
    written = [call("memory_write", content="x" * size)["guid"] for size in sizes]

    found, counts, cursor = [], [], ""
    while True:
        page = call("memory_read", cursor=cursor)
        found += page["items"]
        counts.append(len(page["items"]))
        if "next_cursor" not in page:
            break
        cursor = page["next_cursor"]

    assert [one["guid"] for one in found] == written
    assert counts == [2, 1, 1, 2]
    assert found[3]["content_length"] == 100_000 and found[3]["next_offset"] > 70_000


def test_a_search_counts_the_hits_that_it_leaves_out(call: ToolCaller) -> None:
    for size in (12_000, 12_001, 12_002):
        call("memory_write", content="tea " * size)

    first = call("memory_search", query="tea")
    single = call("memory_search", query="tea", limit=1, explain=True)

    assert (len(first["items"]), first["left_out"]) == (1, 2)
    assert len(single["items"]) == 1 and single["left_out"] == 0


def test_a_single_long_hit_is_cut(call: ToolCaller) -> None:
    guid = call("memory_write", content="tea " * 50_000)["guid"]

    (hit,) = call("memory_search", query="tea", explain=True)["items"]

    rest = call("memory_read", guid=guid, offset=hit["record"]["next_offset"])
    assert hit["record"]["content_length"] == 200_000 and rest["content"]


def test_a_history_of_long_states_has_shorter_pages(call: ToolCaller) -> None:
    guid = call("memory_write", content="0" * 50_000)["guid"]
    for number in range(1, 4):
        call("memory_change", guid=guid, content=str(number) * (50_000 + 50_000 * (number == 2)))

    numbers, cut, cursor = [], [], ""
    while True:
        page = call("memory_history", guid=guid, cursor=cursor)
        numbers += [one["number"] for one in page["items"]]
        cut += [one["record"].get("to_continue", "") for one in page["items"]]
        if "next_cursor" not in page:
            break
        cursor = page["next_cursor"]

    assert numbers == [4, 3, 2, 1]
    assert [bool(one) for one in cut] == [False, True, False, False]
    assert "restore 3" in cut[1]


def test_a_recall_fits_whatever_budget_is_given(call: ToolCaller) -> None:
    for number in range(4):
        call("memory_remember", text=f"Tea {number} " + '"\x02' * 6_000, mode="create")

    found = call("memory_recall", query="tea", min_score=0, limit=20, token_budget=1_000_000)

    assert found["left_out"] > 0


@given(st.text(alphabet=st.characters(codec="utf-8")), st.integers(min_value=2, max_value=60))
def test_a_cut_text_is_the_longest_beginning_that_fits(text: str, most: int) -> None:
    cut = cut_text(text, most)

    assert text.startswith(cut) and len(orjson.dumps(cut)) <= most
    longer = text[: len(cut) + 1]
    assert cut == text or len(orjson.dumps(longer)) > most
