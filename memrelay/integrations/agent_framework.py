"""History and memory of Microsoft Agent Framework. They need the extra `agent-framework`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from memrelay.errors import Refused
from memrelay.installation import missing_framework
from memrelay.integrations.conversation import Conversation, Json
from memrelay.integrations.memory_tools import MemoryTools
from memrelay.integrations.recall import MOST_RESULTS, Recall

try:
    from agent_framework import (
        AgentSession,
        ContextProvider,
        FunctionTool,
        HistoryProvider,
        Message,
        SessionContext,
        SupportsAgentRun,
        tool,
    )
except ImportError as error:
    raise ImportError(missing_framework("Microsoft Agent Framework", "agent-framework")) from error

# The thread of messages without a session.
NO_SESSION = "default"
# The fields by which a message is the same as a stored one.
IDENTITY = ("message_id", "role", "contents")


class MemrelayHistoryProvider(HistoryProvider):
    """The messages of sessions, kept as turns.

    - `call` is a store of `open_store`, or a client of `connect` or `connect_sync`.
    - `user` is the person whose memory it is: sessions of other users with the same id are others.
      `agent` is the speaker of the answers.
    - `uid` is the pipeline of a client, by default its only one. `store` is the memory_id.
    - `options` are those of HistoryProvider, such as `load_messages` or `store_inputs`.

    Raises TypeError for another `call`.
    """

    def __init__(
        self,
        call: Any,
        *,
        user: str = "",
        agent: str = "",
        uid: str = "",
        store: str = "",
        source_id: str = "memrelay_history",
        **options: Any,
    ) -> None:
        super().__init__(source_id, **options)
        self._open = partial(Conversation, call, user=user, agent=agent, uid=uid, store=store)
        # An invalid call fails here.
        self._open(NO_SESSION)

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> list[Message]:
        """Return the messages of a session, oldest first."""
        turns = self._open(session_id or NO_SESSION)
        return [_read_message(turn) for turn in await turns.calls.arun_steps(turns.list())]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Message],
        *,
        state: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Add messages to a session. Up to 1,000 of them are one transaction.

        Messages at the beginning that are the newest of the session are skipped, because some
        clients send the whole conversation again.
        """
        if not messages:
            return
        turns = self._open(session_id or NO_SESSION)
        items = [message.to_dict() for message in messages]
        newest = await turns.calls.arun_steps(turns.list(len(items)))
        known = _count_known([turn["item"] or {} for turn in newest], items)
        added = [
            {"role": message.role, "content": message.text, "item": item}
            for message, item in zip(messages[known:], items[known:], strict=True)
        ]
        await turns.calls.arun_steps(turns.add(added))


class MemrelayContextProvider(ContextProvider):
    """Adds to each run what fits its input, and the tools `remember` and `search`.

    - `call` is a store of `open_store`, or a client of `connect` or `connect_sync`.
    - `user` is the person whose memory it is, by default everyone's. `agent` is the program.
    - `limit` is the number of facts and messages of other sessions, 0 for none.
    - `tools` is whether the agent gets the tools.
    - `uid` is the pipeline of a client, by default its only one. `store` is the memory_id.

    Raises TypeError for another `call`.
    """

    def __init__(
        self,
        call: Any,
        *,
        user: str = "",
        agent: str = "",
        limit: int = MOST_RESULTS,
        tools: bool = True,
        uid: str = "",
        store: str = "",
        source_id: str = "memrelay_memory",
    ) -> None:
        super().__init__(source_id)
        self._limit = limit
        self._recall = Recall(call, user=user, limit=limit, uid=uid, store=store)
        self._tools: list[FunctionTool] = []
        if tools:
            memory = MemoryTools(call, user=user, agent=agent, uid=uid, store=store)
            self._tools = [tool(memory.remember), tool(memory.search)]

    async def before_run(
        self,
        *,
        agent: SupportsAgentRun,
        session: AgentSession,
        context: SessionContext,
        state: dict[str, Any],
    ) -> None:
        """Add the tools, and a message with what fits the last message of the user."""
        context.extend_tools(self.source_id, self._tools)
        asked = [one.text for one in context.input_messages if one.role == "user" and one.text]
        if not asked or not self._limit:
            return
        find = self._recall.find(asked[-1], present=context.session_id or "")
        if text := await self._recall.calls.arun_steps(find):
            context.extend_messages(self, [Message("user", [text])])


def _count_known(stored: Sequence[Json], items: Sequence[Json]) -> int:
    """Return how many items at the beginning are the newest stored ones.

    Equal messages without an id are no evidence: people repeat themselves.
    """
    known = [[item.get(name) for name in IDENTITY] for item in stored]
    new = [[item.get(name) for name in IDENTITY] for item in items]
    for count in range(min(len(known), len(new)), 0, -1):
        if known[-count:] == new[:count] and any(one[0] for one in new[:count]):
            return count
    return 0


def _read_message(turn: Mapping[str, Any]) -> Message:
    """Return the message of a turn, also of one that another program added. Raises Refused."""
    item = turn["item"]
    if item is None:
        return Message(turn["role"], [turn["content"]])
    try:
        return Message.from_dict(item)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise Refused(
            f"the turn {turn['guid']} is no message that this version of Agent Framework reads; if "
            "another framework wrote it, use another session_id, else update Agent Framework, or "
            "remove the turn with records.delete"
        ) from error
