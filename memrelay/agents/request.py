"""The request of a turn, which the block `agent` makes and the store keeps until the answer."""

from collections.abc import Mapping
from typing import Any

import msgspec


class Knowledge(msgspec.Struct, frozen=True):
    """The named memories that an agent reads and writes."""

    memory_ids: tuple[str, ...] | None = None
    memory_tags: tuple[str, ...] | None = None
    min_score: float | None = None
    limit: int = 10
    token_budget: int = 2000
    write_memory_id: str | None = None

    @property
    def is_read(self) -> bool:
        """Return whether memories are searched."""
        return bool(self.memory_ids or self.memory_tags)


class Options(msgspec.Struct, frozen=True):
    """The arguments of the block that a turn needs; `blocks/agent.py` describes them."""

    url: str
    model: str
    api_key: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    tools: tuple[str, ...] = ()
    context_window: int | None = None
    compacting: str = "none"
    compacting_trigger: int = 70
    compacting_keep: int = 20
    keep_checkpoints: int = 10
    max_steps: int = 16
    knowledge_config: Knowledge | None = None

    @property
    def knowledge(self) -> Knowledge:
        """Return the knowledge_config; one that reads and writes nothing by default."""
        return self.knowledge_config or Knowledge()


class TurnRequest(msgspec.Struct, frozen=True):
    """One message for an agent.

    - `text` is the message with the prefix for the model, `question` the message alone.
    - `prompt` is the rendered system prompt, and `alias` that of the agent.
    - `is_remembered`: whether the conversation is stored.
    - `user_id` is "" for a message without a user, and `chat_id` for the user's own chat.
    - `timezone` is that of the user; "" for the bundle's.
    """

    text: str
    question: str
    asked_at_ms: int
    prompt: str
    store: str
    alias: str
    thread: str
    is_remembered: bool
    agent_id: str
    user_id: str
    session_id: str
    options: Options
    chat_id: str = ""
    timezone: str = ""


def parse_request(request: Mapping[str, Any]) -> TurnRequest:
    """Return the request of a turn. Unknown keys are ignored."""
    return msgspec.convert(request, TurnRequest)
