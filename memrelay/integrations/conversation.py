"""The messages of one conversation, for adapters: added, read and removed through `turns`."""

from collections.abc import Mapping, Sequence
from typing import Any

from memrelay.agents.calls import Calls, CallSteps, make_calls

Json = dict[str, Any]
# The kind of records of messages.
TURN = "turn"
# The kind of records that a framework reads to continue a session.
TRANSCRIPT = "transcript"
# The most messages of a call.
MOST = 1000


class Conversation:
    """A thread of a user. Each method yields calls: `calls.run_steps` or `arun_steps` runs them.

    - `call` is a store of `open_store`, or a client of `connect` or `connect_sync`.
    - `thread` names the conversation, `user` the person whose memory it is, `agent` the program.
    - `uid` is the pipeline of a client, by default its only one. `store` is the memory_id.
    - `kind` is the kind of the records.

    Raises TypeError for another `call`.
    """

    def __init__(
        self,
        call: Any,
        thread: str,
        *,
        user: str = "",
        agent: str = "",
        uid: str = "",
        store: str = "",
        kind: str = TURN,
    ) -> None:
        self.calls: Calls = make_calls(call, uid=uid, store=store)
        self._at = {"thread": thread, "user": user, "kind": kind}
        self._agent = agent

    def add(self, messages: Sequence[Mapping[str, Any]]) -> CallSteps[None]:
        """Add messages as `turns.add` takes them. Up to 1,000 of them are one transaction."""
        for start in range(0, len(messages), MOST):
            yield "turns.add", self._batch([*messages[start : start + MOST]])

    def replace(self, messages: Sequence[Mapping[str, Any]]) -> CallSteps[None]:
        """Replace all turns. Up to 1,000 messages are one transaction."""
        if not messages:
            yield from self.clear()
        for start in range(0, len(messages), MOST):
            batch = self._batch([*messages[start : start + MOST]])
            yield "turns.add", batch | {"replace": start == 0}

    def list(self, limit: int | None = None) -> CallSteps[list[Json]]:
        """Return the newest turns, by default all, oldest first."""
        pages: list[list[Json]] = []
        left, query = limit, dict[str, Any](self._at)
        while left is None or left > 0:
            query["limit"] = MOST if left is None else min(left, MOST)
            page = yield "turns.list", query
            pages.append(page["items"])
            if page["before"] is None:
                break
            query["before"] = page["before"]
            left = None if left is None else left - len(page["items"])
        return [turn for page in reversed(pages) for turn in page]

    def pop(self) -> CallSteps[Json | None]:
        """Remove the newest turn and return it, or None if there is none."""
        popped = yield "turns.pop", self._at
        return popped["items"][0] if popped["items"] else None

    def clear(self) -> CallSteps[None]:
        """Delete all turns."""
        yield "turns.clear", self._at

    def _batch(self, messages: Sequence[Mapping[str, Any]]) -> Json:
        return {**self._at, "agent": self._agent, "messages": messages}
