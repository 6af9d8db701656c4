"""What a worker says of itself on the roll, and what keeps a pipeline from its work."""

from collections.abc import Collection
from typing import Any

from worker.group import Group
from worker.surroundings import Surroundings


def describe(groups: Collection[Group], shared: Surroundings) -> dict[str, Any]:
    """{"loop_lag_ms", "groups_recreated", "pipelines"}: as the tally has each pipeline, and how its
    group fares."""
    tally, watch = shared.tally, shared.watch
    told: dict[str, dict[str, Any]] = {}
    read = tally.read([uid for group in groups for uid in group.slots])
    for group in groups:
        fault, wal_bytes = watch.fault(group.stores), watch.wal_bytes(group.stores)
        for plan in group.plans:
            uid = plan.uid
            told[uid] = read[uid] | {
                "hash": plan.hash,
                "paused": tally.paused.get(uid) or fault,
                "wal_bytes": wal_bytes,
                "outbox_bytes": group.outbox_bytes(uid),
                "waiting": group.waiting(uid),
                "vectors_todo": group.vectors.backlog(plan.every_store),
                "vectors_fault": group.vectors.fault,
            }
    return {
        "loop_lag_ms": watch.take_lag_ms(),
        "groups_recreated": tally.recreated,
        "pipelines": told,
    }
