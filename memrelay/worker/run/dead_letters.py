"""Dead letters of a group: stored before the acknowledgement, and deleted after a replay.

Only the owner deletes a dead letter, between the commit of its replay and the acknowledgement. A
replay that comes back after a crash is known by its inbox row. A replay that was requested twice
finds no dead letter.
"""

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from memrelay.logs import get_logger
from memrelay.memory.control.dead_letters import DeadLetter, DeadLetters
from memrelay.worker.run.inputs import Work
from memrelay.worker.run.outcome import Outcome

log = get_logger(__name__)
# Characters of a reason: the text of a block's exception may have any length.
MAX_REASON = 10_000
_replay_entry = attrgetter("replay_entry")


class KnownDeadLetters(NamedTuple):
    """The keys of inputs with a dead letter, and of replays whose dead letter is gone.

    A dead letter is gone after a replay, or if it was dropped.
    """

    existing: frozenset[str] = frozenset()
    gone: frozenset[str] = frozenset()


def split_repeats(work: Sequence[Work]) -> tuple[Sequence[Work], list[Work]]:
    """Return the inputs that may run together, and replays of inputs among them, to run later.

    Without replays, the first is the same sequence.
    """
    if not any(map(_replay_entry, work)):
        return work, []
    seen: set[tuple[str, str]] = set()
    together: list[Work] = []
    later: list[Work] = []
    for one in work:
        name = (one.plan.uid, one.id)
        (later if name in seen else together).append(one)
        seen.add(name)
    return together, later


async def find_dead_letters(
    dead_letters: DeadLetters, work: Sequence[Work], *, recovering: bool
) -> KnownDeadLetters:
    """Return the dead letters of the replays in a batch.

    During recovery, look for those of all inputs: a crash may have come between the dead letter and
    the acknowledgement. Raises StoreBusy.
    """
    wanted = [one for one in work if one.replay_entry or recovering]
    existing: set[str] = set()
    for uid, idents in _by_pipeline((one.plan.uid, one.id) for one in wanted):
        existing |= {f"{uid}/{ident}" for ident in await dead_letters.among(uid, idents)}
    gone = [one.key for one in wanted if one.replay_entry and one.key not in existing]
    return KnownDeadLetters(frozenset(existing), frozenset(gone))


async def store_dead_letters(
    dead_letters: DeadLetters,
    outcomes: Sequence[Outcome],
    known: KnownDeadLetters,
    now_ms: int,
    content_bytes: int,
) -> list[DeadLetter]:
    """Add the dead letters of a batch, and delete those whose replay succeeded.

    Return the added ones. Repeated calls have the same effect. `content_bytes` bounds the content
    of a pipeline's dead letters. Raises StoreBusy.
    """
    added = [make_letter(one, now_ms) for one in outcomes if one.dead_letter is not None]
    for trimmed in await dead_letters.add(added, content_bytes) if added else ():
        log.warning(
            "dead_letters_trimmed",
            pipeline=trimmed.pipeline,
            without_content=trimmed.cut,
            deleted=trimmed.deleted,
            remedy="correct the cause, then replay or drop the dead letters (`memrelay dlq`)",
        )
    if known.existing:
        succeeded = [
            (outcome.uid, outcome.id)
            for outcome in outcomes
            if outcome.dead_letter is None and f"{outcome.uid}/{outcome.id}" in known.existing
        ]
        for uid, idents in _by_pipeline(succeeded):
            await dead_letters.remove(uid, idents)
    return added


def make_letter(outcome: Outcome, now_ms: int) -> DeadLetter:
    """Return the dead letter of a failed input."""
    dead_letter = outcome.dead_letter
    assert dead_letter is not None
    return DeadLetter(
        outcome.uid,
        outcome.id,
        dead_letter.swarm,
        dead_letter.data,
        dead_letter.error[:MAX_REASON] + dead_letter.frames,
        dead_letter.bundle,
        now_ms,
        agent=dead_letter.agent,
        producer_id=dead_letter.producer_id,
        hop=dead_letter.hop,
        published=dead_letter.published,
        attempts=dead_letter.attempts,
        entry=outcome.replay_entry or outcome.id,
        traceparent=outcome.traceparent,
        via=dead_letter.via,
    )


def _by_pipeline(names: Iterable[tuple[str, str]]) -> Iterable[tuple[str, list[str]]]:
    """Group (uid, id) pairs by uid."""
    found: dict[str, list[str]] = {}
    for uid, ident in names:
        found.setdefault(uid, []).append(ident)
    return found.items()
