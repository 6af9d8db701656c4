"""Prune threads: delete old checkpoints, except those that later ones need."""

from memrelay.memory.agents.checkpoints import CheckpointTable, Outline


def prune_thread(table: CheckpointTable, agent: str, thread: str, keep: int) -> int:
    """Keep the newest checkpoints of each namespace of a thread. Return how many were deleted.

    The value of a DeltaChannel is rebuilt from an earlier checkpoint and the writes since then, so
    those are kept too.
    """
    by_ns: dict[str, dict[str, Outline]] = {}
    for one in table.select(agents=[agent], thread=thread):
        by_ns.setdefault(one.ns, {})[one.id] = one
    old = []
    for found in by_ns.values():
        kept = set(list(found)[:keep])
        for ident in list(kept):
            kept |= _needed_by(found, ident)
        old += [one.key for one in found.values() if one.id not in kept]
    return table.delete(old)


def _needed_by(found: dict[str, Outline], ident: str) -> set[str]:
    """Return the ids of earlier checkpoints from which values of that one are rebuilt."""
    missing, needed = found[ident].missing_channels, set()
    while missing and (ident := found[ident].parent) in found and ident not in needed:
        needed.add(ident)
        missing -= found[ident].stored_channels
    return needed
