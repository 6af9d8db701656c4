"""Keeps a conversation within the window of the model: old turns are dropped or summarized."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage

from memrelay.agents.history import (
    SUMMARY_ID,
    Turn,
    clean,
    count_tokens,
    find_budget,
    find_window,
    keep_last_turns,
    repair,
    split_for_summary,
    split_turns,
)
from memrelay.agents.model import ModelFault
from memrelay.agents.request import Options
from memrelay.agents.wire import read_text

SUMMARIZE = (
    "Summarize the conversation below for the assistant that continues it. Keep facts, names, "
    "numbers, decisions and open questions. Answer with the summary only."
)
SUMMARY = "[Summary of the earlier conversation]"
CHARACTERS_A_TOKEN = 3

# Returns the response of the model to messages.
Ask = Callable[[Sequence[BaseMessage]], Awaitable[dict[str, Any]]]


async def fit(messages: Sequence[BaseMessage], options: Options, ask: Ask) -> list[BaseMessage]:
    """Return the messages repaired, cleaned and within the window, in whole turns.

    The last turn, and messages with a fixed id, always stay.
    """
    cleaned = [clean(message) for message in repair(messages)]
    pinned, turns = split_turns([one for one in cleaned if one is not None])
    if options.compacting == "summarize" and _is_full(pinned, turns, options):
        pinned, turns = await _summarize(pinned, turns, options, ask)
    kept = keep_last_turns(turns, _left_for_turns(pinned, options))
    return [*pinned, *_flat(kept)]


def _is_full(pinned: Sequence[BaseMessage], turns: Sequence[Turn], options: Options) -> bool:
    used = count_tokens([*pinned, *_flat(turns)])
    return used * 100 > _window(options) * options.compacting_trigger


def _left_for_turns(pinned: Sequence[BaseMessage], options: Options) -> int:
    """Return the tokens for turns, 0 for no limit. The prompt is sent twice."""
    budget = find_budget(_window(options), options.max_tokens)
    if budget <= 0:
        return 0
    knowledge = options.knowledge
    used = 2 * count_tokens(pinned) + (knowledge.token_budget if knowledge.is_read else 0)
    return max(1, budget - used)


async def _summarize(
    pinned: list[BaseMessage], turns: list[Turn], options: Options, ask: Ask
) -> tuple[list[BaseMessage], list[Turn]]:
    """Replace old turns, and their earlier summary, by a summary.

    Without an answer of the model, they stay; those that exceed the window are dropped then.
    """
    old, recent = split_for_summary(turns, options.compacting_keep)
    if not old:
        return pinned, turns
    earlier = [one for one in pinned if one.id == SUMMARY_ID]
    others = [one for one in pinned if one.id != SUMMARY_ID]
    most = CHARACTERS_A_TOKEN * max(1, find_budget(_window(options), options.max_tokens))
    transcript = "\n".join(map(_line, [*earlier, *_flat(old)]))[-most:]
    try:
        response = await ask([SystemMessage(SUMMARIZE), HumanMessage(transcript)])
    except ModelFault:
        return pinned, turns
    text = response.get("content")
    if not isinstance(text, str) or not text.strip():
        return pinned, turns
    summary = HumanMessage(f"{SUMMARY}\n{text.strip()}", id=SUMMARY_ID)
    return [*others, summary], recent


def _window(options: Options) -> int:
    return find_window(options.model, options.context_window)


def _line(message: BaseMessage) -> str:
    role = {"human": "user", "ai": "assistant"}.get(message.type, message.type)
    return f"{role}: {read_text(message)}"


def _flat(turns: Sequence[Turn]) -> list[BaseMessage]:
    return [message for turn in turns for message in turn]
