"""Who awaits the end of a cascade, and what it is told. A cascade ends with its last continuation."""
from dataclasses import dataclass, field
from typing import Any

from worker.outcome import Outcome


@dataclass(slots=True)
class _Unfinished:
    """A cascade that goes on in continuations."""

    open: set[str] = field(default_factory=set)   # keys of the continuations
    told: dict[str, list[Any]] = field(default_factory=dict)


class Settlements:
    """Gathers the reports of a cascade's parts. Lost with the process: after a crash the rest alone is reported."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._unfinished: dict[str, _Unfinished] = {}

    def expect(self, root: str, key: str) -> None:
        """A continuation of the cascade that began with `root` is still to run."""
        self._unfinished.setdefault(root, _Unfinished()).open.add(key)

    def settle(self, outcome: Outcome) -> dict[str, Any] | None:
        """The whole report when the cascade has ended with this outcome; None while it goes on."""
        root = f"{outcome.uid}/{outcome.root}"
        for continuation in outcome.continuations:
            self.expect(root, continuation.id)
        told = outcome.report()
        waiting = self._unfinished.get(root)
        if waiting is None:
            return {"id": outcome.root, "settled": True, **told}
        waiting.open.discard(outcome.key)
        for name, value in told.items():
            waiting.told.setdefault(name, []).extend(value)
        if waiting.open:
            return None
        del self._unfinished[root]
        return {"id": outcome.root, "settled": True, **waiting.told}
