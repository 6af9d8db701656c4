"""The stored messages of a conversation: repaired, cleaned, and kept within the model's window.

Old turns are dropped or summarized.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from itertools import takewhile
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.utils import count_tokens_approximately

from memrelay.agents.model import ModelFault
from memrelay.agents.request import Options
from memrelay.agents.response import is_readable
from memrelay.agents.wire import read_text

PROMPT_ID, SUMMARY_ID = "system_prompt_fallback", "conversation_summary"
INTERRUPTED = "interrupted"
NO_RESULT = "(no text)"
# Windows by the longest prefix of the model's name, in tokens.
WINDOWS = {
    "claude": 200_000,
    "gpt-4o": 128_000,
    "gpt-4": 8_192,
    "gpt-3.5-turbo": 16_384,
    "o1-mini": 128_000,
    "o1": 200_000,
    "o3": 200_000,
}
DEFAULT_WINDOW, MAX_OUTPUT, RESERVE = 128_000, 16_384, 512
# Blocks that only the model and its provider use.
INTERNAL_BLOCKS = frozenset(
    {
        *("thinking", "redacted_thinking", "reasoning", "server_tool_use"),
        *("web_search_tool_result", "web_search_result"),
    }
)
THOUGHT = re.compile(r"\A\s*<think(?:ing)?>.*?</think(?:ing)?>\s*", re.DOTALL)

Turn = list[BaseMessage]


def find_window(model: str, context_window: int | None) -> int:
    """Return the window of a model in tokens."""
    if context_window:
        return context_window
    name = model.rpartition("/")[2]
    prefixes = [prefix for prefix in WINDOWS if name.startswith(prefix)]
    return WINDOWS[max(prefixes, key=len)] if prefixes else DEFAULT_WINDOW


def find_budget(window: int, max_tokens: int | None) -> int:
    """Return the tokens of a window for messages. It is not positive if nothing is left."""
    return window - (max_tokens or min(MAX_OUTPUT, window // 4)) - RESERVE


def clean(message: BaseMessage) -> BaseMessage | None:
    """Return a message without thoughts, searches of the provider, citations and empty blocks.

    None if nothing is left.
    """
    content = message.content
    is_answer = isinstance(message, AIMessage)
    if isinstance(content, str):
        may_think = is_answer and "<think" in content
        cleaned: Any = THOUGHT.sub("", content) if may_think else content
    else:
        cleaned = [
            block if isinstance(block, str) else _without_citations(block)
            for block in content
            if not _is_unwanted(block, is_answer=is_answer)
        ]
    has_calls = isinstance(message, AIMessage) and message.tool_calls
    if not cleaned and not has_calls:
        if not isinstance(message, ToolMessage):
            return None
        cleaned = NO_RESULT
    return message if cleaned == content else message.model_copy(update={"content": cleaned})


def drop_blank(message: BaseMessage) -> BaseMessage | None:
    """Return a message without blocks of only white space; None if no text is left."""
    has_calls = isinstance(message, AIMessage) and message.tool_calls
    if read_text(message).strip():
        if isinstance(message.content, str):
            return message
        blocks = [block for block in message.content if not _is_blank(block)]
        return message.model_copy(update={"content": blocks})
    if isinstance(message, ToolMessage):
        return message.model_copy(update={"content": NO_RESULT})
    return message.model_copy(update={"content": ""}) if has_calls else None


def repair(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages with a result `interrupted` for each tool call that has none.

    Results without a call are dropped, since services refuse them.
    """
    repaired: list[BaseMessage] = []
    at = 0
    while at < len(messages):
        message, at = messages[at], at + 1
        if isinstance(message, ToolMessage):
            continue
        repaired.append(message)
        results = list(takewhile(_is_result, messages[at:]))
        at += len(results)
        repaired += _find_results(message, results)
    return repaired


def _is_result(message: BaseMessage) -> bool:
    return isinstance(message, ToolMessage)


def _find_results(message: BaseMessage, results: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return one result for each tool call of a message, in the order of the calls."""
    results_by_id = {one.tool_call_id: one for one in results if isinstance(one, ToolMessage)}
    calls = message.tool_calls if isinstance(message, AIMessage) else []
    return [
        results_by_id.get(str(call["id"]))
        or ToolMessage(
            INTERRUPTED,
            tool_call_id=str(call["id"]),
            name=call["name"],
            id=f"{message.id}/{index}",
        )
        for index, call in enumerate(calls)
    ]


def split_turns(messages: Sequence[BaseMessage]) -> tuple[list[BaseMessage], list[Turn]]:
    """Return the pinned messages, and the turns: each begins with a message of the user."""
    pinned = [one for one in messages if one.id in (PROMPT_ID, SUMMARY_ID)]
    turns: list[Turn] = []
    for message in messages:
        if message.id in (PROMPT_ID, SUMMARY_ID):
            continue
        if isinstance(message, HumanMessage) or not turns:
            turns.append([])
        turns[-1].append(message)
    return pinned, turns


def count_tokens(messages: Sequence[BaseMessage]) -> int:
    """Return the approximate number of tokens of messages."""
    return count_tokens_approximately(messages)


def keep_last_turns(turns: Sequence[Turn], budget: int) -> list[Turn]:
    """Return the last turns that fit into the budget. The last one is always kept.

    Without a positive budget, all are kept.
    """
    if budget <= 0:
        return list(turns)
    kept: list[Turn] = []
    for turn in reversed(turns):
        budget -= count_tokens(turn)
        if kept and budget < 0:
            break
        kept.append(turn)
    return kept[::-1]


def split_for_summary(turns: Sequence[Turn], keep: int) -> tuple[list[Turn], list[Turn]]:
    """Return (old turns, the last turns with at least `keep` messages together)."""
    left, at = keep, len(turns)
    while at > 0 and left > 0:
        at -= 1
        left -= len(turns[at])
    return list(turns[:at]), list(turns[at:])


def _is_unwanted(block: Any, *, is_answer: bool) -> bool:
    if not is_readable(block) or not block:
        return True
    if isinstance(block, str):
        return False
    kind = block.get("type")
    return (is_answer and kind in INTERNAL_BLOCKS) or (kind == "text" and not block.get("text"))


def _is_blank(block: Any) -> bool:
    if isinstance(block, str):
        return not block.strip()
    return block.get("type") == "text" and not str(block.get("text") or "").strip()


def _without_citations(block: Any) -> Any:
    if "citations" not in block:
        return block
    return {key: value for key, value in block.items() if key != "citations"}


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
    turns = keep_last_turns(turns, _left_for_turns(pinned, options))
    return [*pinned, *_flat(turns)]


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
