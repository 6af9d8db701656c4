"""The kept results of deferred calls, which a rehearsal takes instead of making the calls."""

from collections import defaultdict
from collections.abc import Sequence

from memrelay.memory.engine.inbox import Pending
from memrelay.memory.models.inputs.packing import KeptInput, KeptResult
from memrelay.pipelines.plan import PlannedAgent
from memrelay.worker.deferred_calls.stored import make_request_digest


class KeptResults:
    """The results that one side of a rehearsal has not taken yet."""

    def __init__(self, kept: Sequence[KeptInput]) -> None:
        # By the id of the input, the alias of the agent, and the digest of the request.
        self._left: defaultdict[tuple[str, str, bytes], list[KeptResult]] = defaultdict(list)
        # By id of a kept call: its agent.
        self._agents: dict[str, str] = {}
        # Ids of the calls whose results are taken.
        self._taken: set[str] = set()
        for one in kept:
            if (result := one.result) is not None:
                self._left[one.id, result.agent, result.digest].append(result)
                self._agents[result.call_id] = result.agent

    def take(self, pending: Pending, subscriber: PlannedAgent) -> bytes | None:
        """Return the result of a deferred call, None if no equal request of the agent is kept for
        this input. The result of the same call comes first, then the oldest one.
        """
        key = pending.root, pending.agent, make_request_digest(pending, subscriber)
        left = self._left.get(key)
        if not left:
            return None
        same = (at for at, one in enumerate(left) if one.call_id == pending.deferred_call_id)
        result = left.pop(next(same, 0))
        self._taken.add(result.call_id)
        return result.data

    def find_caller(self, kept: KeptInput) -> str:
        """Return the alias of the agent whose kept call has called this operation, "" for any
        other input.
        """
        return self._agents.get(_find_call(kept), "") if self._agents else ""

    def is_taken(self, kept: KeptInput) -> bool:
        """Return whether a deferred call of this side has taken the result of the call that has
        called this operation.
        """
        return _find_call(kept) in self._taken


def _find_call(kept: KeptInput) -> str:
    """Return the id of the deferred call that has called this operation, or another text.

    The idempotency key of such an operation begins with the id.
    """
    if not kept.field(b"op"):
        return ""
    uid, _, rest = kept.text(b"id").partition("/")
    return f"{uid}/{rest.partition('/')[0]}"
