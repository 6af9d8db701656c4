"""The messages of a conversation: cleaned, repaired and kept within the window."""

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)

from memrelay.agents.history import (
    INTERRUPTED,
    PROMPT_ID,
    SUMMARY_ID,
    clean,
    drop_blank,
    find_budget,
    find_window,
    keep_last_turns,
    repair,
    split_for_summary,
    split_turns,
)

CALL = {"name": "recall", "args": {}, "id": "c1", "type": "tool_call"}


def ai(content: Any = "", *calls: Any, ident: str = "a") -> AIMessage:
    return AIMessage(content, tool_calls=[{**CALL, "id": one} for one in calls], id=ident)


def contents(messages: list[BaseMessage]) -> list[Any]:
    return [one.content for one in messages]


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("claude-sonnet", 200_000),
        ("anthropic/claude-sonnet", 200_000),
        ("gpt-4o-mini", 128_000),
        ("gpt-4-0613", 8_192),
        ("o1-mini", 128_000),
        ("o1-pro", 200_000),
        ("llama3", 128_000),
    ],
)
def test_the_longest_prefix_of_the_model_gives_the_window(model: str, window: int) -> None:
    assert find_window(model, None) == window
    assert find_window(model, 4_000) == 4_000


def test_the_budget_leaves_room_for_the_answer() -> None:
    assert find_budget(8_192, None) == 8_192 - 2_048 - 512
    assert find_budget(200_000, None) == 200_000 - 16_384 - 512
    assert find_budget(8_192, 100) == 8_192 - 100 - 512


@pytest.mark.parametrize(
    ("message", "content"),
    [
        (ai("<think>hm</think>\nblue"), "blue"),
        (HumanMessage("<think>hm</think> is a tag"), "<think>hm</think> is a tag"),
        (
            ai([{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "blue"}]),
            [{"type": "text", "text": "blue"}],
        ),
        (
            ai([{"type": "text", "text": "blue", "citations": [1]}, {"type": "text", "text": ""}]),
            [{"type": "text", "text": "blue"}],
        ),
        (
            HumanMessage(
                [{"type": "text", "text": ""}, {"type": "image_url", "image_url": {"url": "x"}}]
            ),
            [{"type": "image_url", "image_url": {"url": "x"}}],
        ),
        (
            ai([{"type": "text", "text": 7}, {"type": 3}, {}, {"type": "text", "text": "blue"}]),
            [{"type": "text", "text": "blue"}],
        ),
        (ToolMessage("", tool_call_id="c1"), "(no text)"),
    ],
)
def test_a_message_is_cleaned(message: BaseMessage, content: Any) -> None:
    cleaned = clean(message)

    assert cleaned is not None
    assert cleaned.content == content


@pytest.mark.parametrize(
    "message", [ai(""), ai("<think>hm</think>"), HumanMessage(""), SystemMessage([])]
)
def test_a_message_without_content_is_dropped(message: BaseMessage) -> None:
    assert clean(message) is None


def test_a_message_with_only_tool_calls_is_kept() -> None:
    assert clean(ai("", "c1")) == ai("", "c1")


def test_white_space_is_dropped_if_the_service_refuses_it() -> None:
    assert drop_blank(HumanMessage(" \n")) is None
    assert drop_blank(ai(" ", "c1")) == ai("", "c1")
    assert drop_blank(ToolMessage(" ", tool_call_id="c1")) == ToolMessage(
        "(no text)", tool_call_id="c1"
    )
    filled = drop_blank(ai([{"type": "text", "text": " "}, {"type": "text", "text": "blue"}]))
    assert filled is not None
    assert filled.content == [{"type": "text", "text": "blue"}]


def test_a_tool_call_without_a_result_gets_one() -> None:
    messages = [
        HumanMessage("one"),
        ai("", "c1", "c2", ident="a1"),
        ToolMessage("found", tool_call_id="c1", id="t1"),
        HumanMessage("two"),
    ]

    repaired = repair(messages)

    assert contents(repaired) == ["one", "", "found", INTERRUPTED, "two"]
    assert isinstance(repaired[3], ToolMessage)
    assert (repaired[3].tool_call_id, repaired[3].id) == ("c2", "a1/1")
    assert repair(repaired) == repaired


def test_a_result_belongs_to_the_call_before_it() -> None:
    messages = [
        ai("", "c1", ident="a1"),
        ToolMessage("first", tool_call_id="c1"),
        ai("", "c1", ident="a2"),
        HumanMessage("two"),
        ToolMessage("stray", tool_call_id="c1"),
    ]

    assert contents(repair(messages)) == ["", "first", "", INTERRUPTED, "two"]


def test_turns_begin_with_the_user() -> None:
    prompt, summary = HumanMessage("p", id=PROMPT_ID), HumanMessage("s", id=SUMMARY_ID)
    one = [HumanMessage("one"), ai("", "c1"), ToolMessage("x", tool_call_id="c1"), ai("1")]
    two = [HumanMessage("two"), ai("2")]

    assert split_turns([prompt, *one, summary, *two]) == ([prompt, summary], [one, two])


def test_the_last_turns_that_fit_are_kept() -> None:
    turns: list[list[BaseMessage]] = [
        [HumanMessage(f"{n}" * 400), ai("yes", ident=f"{n}")] for n in range(5)
    ]

    assert keep_last_turns(turns, 250) == turns[-2:]
    assert keep_last_turns(turns, 1) == turns[-1:]
    assert keep_last_turns(turns, 0) == turns


def test_a_summary_leaves_whole_turns() -> None:
    turns: list[list[BaseMessage]] = [
        [HumanMessage(f"{n}"), ai("yes", ident=f"{n}")] for n in range(5)
    ]

    assert split_for_summary(turns, 3) == (turns[:3], turns[3:])
    assert split_for_summary(turns, 20) == ([], turns)
