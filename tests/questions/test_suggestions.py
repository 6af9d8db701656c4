"""Questions that receipts propose expect what is found now."""

import asyncio
from typing import Any

import pytest

from memrelay.questions.file import read_questions
from memrelay.questions.run import Call, ask_all
from memrelay.questions.suggest import HEADING, suggest


def receipt(query: str, operation: str = "records.search", **given: Any) -> dict[str, Any]:
    return {"operation": operation, "question": {"query": query, "limit": 5, "kind": ""} | given}


RECEIPTS = [
    receipt("milk", explain=True),
    *[receipt("tea", mode="hybrid", tags=["a"])] * 2,
    receipt("trips", "knowledge.search", memory_ids=["m1"]),
    receipt("both", "knowledge.search", memory_ids=["m1", "m2"]),
    receipt("other", "episodes.search"),
    {"operation": "records.search", "question": {"digest": "0f"}},
    {"operation": "records.search", "question": None},
]


async def search(call: Call) -> dict[str, Any]:
    if call.operation == "receipts.list":
        second = "cursor" in call.input
        items = RECEIPTS[3:] if second else RECEIPTS[:3]
        return {"items": items, "next_cursor": None if second else "3"}
    if call.operation == "memories.list":
        return {"items": [{"id": "m1", "name": "notes"}], "next_cursor": None}
    if call.operation == "knowledge.search":
        return {"results": [{"entry_id": "e", "content": "Rome: in May\nmore"}], "reason": ""}
    found = [{"record": {"guid": "g", "content": "green tea"}, "score": 1.0}]
    return {"items": found if call.input["query"] == "tea" else [], "degraded": None}


def test_the_file_is_valid_and_passes_and_begins_with_what_was_asked_most() -> None:
    text = asyncio.run(suggest(search))

    assert text.startswith(HEADING)
    questions = read_questions(text.encode())
    shown = [(one.question, one.search, one.mode, one.memory, one.k) for one in questions]
    assert shown == [
        ("tea", "records.search", "hybrid", "", 5),
        ("milk", "records.search", None, "", 5),
        ("trips", "knowledge.search", None, "m1", 5),
    ]
    assert questions[0].input == {"tags": ["a"]}
    assert [str(one.must[0]) if one.must else "" for one in questions] == [
        *('text "green tea"', "", 'text "Rome: in May"'),
    ]
    assert all(one.passed for one in asyncio.run(ask_all(questions, search)))


def test_without_questions_in_receipts_nothing_is_proposed() -> None:
    async def none(call: Call) -> dict[str, Any]:
        return {"items": RECEIPTS[-2:], "next_cursor": None}

    with pytest.raises(LookupError, match="no receipt has a question"):
        asyncio.run(suggest(none))
