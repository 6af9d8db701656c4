"""Sharing: which groups of pipelines each of several workers serves, so that each has about as
many."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

Members = frozenset[str]  # the uids of pipelines that share stores


class Share(NamedTuple):
    """What one worker does next."""

    keep: list[Members]  # of the groups that it serves
    may_take: list[Members]  # of those that nobody serves, at most so many as it wants


def share(
    groups: Sequence[Members], mine: frozenset[str], others: Sequence[Collection[str]]
) -> Share:
    """By the pipelines that this worker serves, and those of each of the others.

    It lets go what is above an equal share, or above the smaller one while somebody has less than
    that; then it takes what is
    free. So a worker that comes gets its share, and nothing moves once all have theirs.
    """
    workers = 1 + len(others)
    least, most = len(groups) // workers, -(-len(groups) // workers)
    held = [group for group in groups if group & mine]
    served = [sum(not group.isdisjoint(theirs) for group in groups) for theirs in others]
    if len(held) > most:
        held = held[:most]
    elif len(held) > least and any(count < least for count in served):
        held = held[:-1]
    everyones = mine.union(*others)
    free = [group for group in groups if group.isdisjoint(everyones)]
    return Share(held, free[: most - len(held)])
