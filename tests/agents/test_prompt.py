"""What precedes a conversation, and how it is kept within the window."""

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage

from memrelay.agents.history import PROMPT_ID, SUMMARIZE, SUMMARY, SUMMARY_ID, fit
from memrelay.agents.model import ModelFault
from memrelay.agents.request import Options
from memrelay.agents.turn import fallback_messages, system_messages
from memrelay.agents.wire import from_wire, to_wire

PROMPT = HumanMessage("P", id=PROMPT_ID)


def make_history(count: int) -> list[BaseMessage]:
    """Return turns of about 100 tokens each, without the last answer."""
    messages: list[BaseMessage] = [PROMPT]
    for number in range(count):
        messages.append(HumanMessage(f"question {number} " + "x" * 370, id=f"q{number}"))
        messages.append(AIMessage(f"answer {number}", id=f"a{number}"))
    return messages[:-1]


def fit_now(messages: Sequence[BaseMessage], answer: Any = None, **options: Any) -> Any:
    """Return (fitted messages, requests for a summary)."""
    asked: list[list[BaseMessage]] = []

    async def ask(messages: Sequence[BaseMessage]) -> dict[str, Any]:
        asked.append(list(messages))
        if answer is None:
            raise ModelFault("busy")
        return {"content": answer}

    chosen = Options("http://x/v1", "llama3", **options)
    return asyncio.run(fit(messages, chosen, ask)), asked


def idents(messages: Sequence[BaseMessage]) -> list[str | None]:
    return [one.id for one in messages]


def test_the_prompt_is_a_system_message_and_a_message_of_the_user() -> None:
    assert system_messages("P", "K") == [SystemMessage("P"), SystemMessage("K")]
    assert system_messages("", "") == fallback_messages("") == []
    (fallback,) = fallback_messages("P")
    assert fallback.id == "system_prompt_fallback"
    assert fallback.content == (
        "[System instructions — follow these for the entire conversation]\nP"
    )


def test_a_conversation_within_the_window_stays() -> None:
    messages = make_history(3)

    assert fit_now(messages) == (messages, [])


def test_old_turns_that_exceed_the_window_are_dropped() -> None:
    fitted, asked = fit_now(make_history(9), context_window=1_000, max_tokens=100)

    assert idents(fitted) == [PROMPT_ID, "q6", "a6", "q7", "a7", "q8"]
    assert asked == []


def test_old_turns_are_summarized() -> None:
    fitted, asked = fit_now(
        make_history(9),
        "They talked.",
        context_window=1_200,
        max_tokens=100,
        compacting="summarize",
        compacting_keep=3,
    )

    assert idents(fitted) == [PROMPT_ID, SUMMARY_ID, "q7", "a7", "q8"]
    assert fitted[1].content == f"{SUMMARY}\nThey talked."
    ((system, transcript),) = asked
    assert system.content == SUMMARIZE
    assert transcript.content.endswith("assistant: answer 6")


def test_a_later_summary_contains_the_earlier_one() -> None:
    earlier = HumanMessage(f"{SUMMARY}\nBefore.", id=SUMMARY_ID)
    options = {"compacting": "summarize", "compacting_keep": 1, "compacting_trigger": 1}

    fitted, ((_, transcript),) = fit_now(
        [PROMPT, earlier, *make_history(4)[1:]], "All.", context_window=4_000, **options
    )

    assert idents(fitted) == [PROMPT_ID, SUMMARY_ID, "q3"]
    assert transcript.content.startswith(f"user: {SUMMARY}\nBefore.")


def test_without_a_summary_old_turns_are_dropped_only_beyond_the_window() -> None:
    options = {"compacting": "summarize", "compacting_keep": 1, "compacting_trigger": 1}
    messages = make_history(4)

    assert fit_now(messages, None, context_window=4_000, **options)[0] == messages


def test_messages_of_the_model_survive_the_way_to_the_service_and_back() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "recall", "arguments": "{}"}}
    said = {"role": "assistant", "content": None, "tool_calls": [call]}

    assert to_wire(from_wire(said, "a")) == said


def test_faulty_tool_calls_become_calls_with_distinct_ids() -> None:
    calls = [
        {"function": {"name": "recall", "arguments": "{"}},
        {"id": "c", "function": {"name": "recall", "arguments": ""}},
        {"id": "c", "function": {"name": "recall", "arguments": {"key": "tea"}}},
        "nonsense",
    ]

    message = from_wire({"content": None, "tool_calls": calls}, "a")

    assert [call["id"] for call in message.tool_calls] == ["call_a_0", "c", "call_a_2", "call_a_3"]
    assert [call["args"] for call in message.tool_calls] == [{}, {}, {"key": "tea"}, {}]
    assert [call["id"] for call in message.invalid_tool_calls] == ["call_a_0"]
