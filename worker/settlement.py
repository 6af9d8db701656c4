"""Cascades that go on in continuations: how far they have spread, who awaits their end, and what it
is told."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from worker.outcome import Outcome


@dataclass(slots=True)
class _Unfinished:
    """A cascade with continuations still to run."""

    open: set[str] = field(default_factory=set)  # keys of the continuations
    total: int = 0  # how many there ever were
    told: dict[str, list[Any]] = field(default_factory=dict)


class Settlements:
    """Gathers the reports of a cascade's parts. Lost with the process: after a crash the rest alone
    is reported."""

    def __init__(self) -> None:
        """Nothing is under way."""
        self._unfinished: dict[str, _Unfinished] = {}

    def expect(self, root: str, key: str) -> int:
        """A continuation of the cascade that began with `root` is still to run; returns how many it
        has had."""
        unfinished = self._unfinished.setdefault(root, _Unfinished())
        unfinished.total += key not in unfinished.open  # one that is tried again is no further one
        unfinished.open.add(key)
        return unfinished.total

    def settle(self, outcomes: Sequence[Outcome]) -> list[dict[str, Any] | None]:
        """Of each outcome the whole report, where the cascade has ended with it and somebody awaits
        that."""
        unfinished, settled = self._unfinished, self._settled
        return [settled(outcome) if outcome.reply or unfinished else None for outcome in outcomes]

    def _settled(self, outcome: Outcome) -> dict[str, Any] | None:
        if outcome.put_off:
            return None
        waiting = self._unfinished.get(f"{outcome.uid}/{outcome.root}")
        if waiting is None:
            return (
                {"id": outcome.root, "settled": True, **outcome.report()} if outcome.reply else None
            )
        waiting.open.discard(outcome.key)
        for name, value in (outcome.report() if outcome.reply else {}).items():
            waiting.told.setdefault(name, []).extend(value)
        if waiting.open:
            return None
        del self._unfinished[f"{outcome.uid}/{outcome.root}"]
        return {"id": outcome.root, "settled": True, **waiting.told} if outcome.reply else None
