"""Dead letters as a group meets them: on disk before anything is acknowledged, and forgotten once a
replay has gone through.

A letter is what allows its replay. The owner, who alone runs it, takes it away between the commit
and the acknowledgement: a
replay that comes back after a crash is known by its inbox row, and one that was asked for twice
finds no letter any more.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from memrelay.memory.control.dead_letters import DeadLetter, DeadLetters
from memrelay.worker.run.inputs import Work
from memrelay.worker.run.outcome import Outcome

_entry = attrgetter("entry")


class Lettered(NamedTuple):
    """Inputs of a batch, by their keys."""

    there: frozenset[str] = frozenset()  # those of which there is a letter
    gone: frozenset[str] = (
        frozenset()
    )  # replays whose letter is there no more: they went through already, or it was dropped


def once_each(work: Sequence[Work]) -> tuple[Sequence[Work], list[Work]]:
    """(what may run together, replays of an input that is among them: they come next, when its
    outcome is known)."""
    if not any(map(_entry, work)):
        return work, []
    seen: set[tuple[str, str]] = set()
    together: list[Work] = []
    later: list[Work] = []
    for one in work:
        name = (one.plan.uid, one.id)
        (later if name in seen else together).append(one)
        seen.add(name)
    return together, later


async def look_up(letters: DeadLetters, work: Sequence[Work], *, recovering: bool) -> Lettered:
    """Asks for the replays; while recovering for every input, since the crash may have come between
    burial and
    acknowledgement. Raises StoreBusy."""
    asked = [one for one in work if one.entry or recovering]
    there: set[str] = set()
    for uid, idents in _by_pipeline((one.plan.uid, one.id) for one in asked):
        there |= {f"{uid}/{ident}" for ident in await letters.among(uid, idents)}
    return Lettered(
        frozenset(there), frozenset(one.key for one in asked if one.entry and one.key not in there)
    )


async def settle(
    letters: DeadLetters, outcomes: Sequence[Outcome], lettered: Lettered, now_ms: int
) -> list[DeadLetter]:
    """Keeps what was given up and forgets what went through; returns the former. The same again
    changes nothing.

    Raises StoreBusy.
    """
    buried = [_letter(outcome, now_ms) for outcome in outcomes if outcome.letter is not None]
    if buried:
        await letters.bury(buried)
    if lettered.there:
        through = [
            outcome
            for outcome in outcomes
            if outcome.letter is None and f"{outcome.uid}/{outcome.id}" in lettered.there
        ]
        for uid, idents in _by_pipeline((outcome.uid, outcome.id) for outcome in through):
            await letters.remove(uid, idents)
    return buried


def _letter(outcome: Outcome, now_ms: int) -> DeadLetter:
    letter = outcome.letter
    assert letter is not None
    return DeadLetter(
        outcome.uid,
        outcome.id,
        letter.swarm,
        letter.data,
        letter.error,
        letter.bundle,
        now_ms,
        agent=letter.agent,
        producer_id=letter.producer_id,
        hop=letter.hop,
        heard=letter.heard,
        attempts=letter.attempts,
        entry=outcome.entry or outcome.id,
    )


def _by_pipeline(places: Iterable[tuple[str, str]]) -> Iterable[tuple[str, list[str]]]:
    """(uid, ids) of each pipeline."""
    found: dict[str, list[str]] = {}
    for uid, ident in places:
        found.setdefault(uid, []).append(ident)
    return found.items()
