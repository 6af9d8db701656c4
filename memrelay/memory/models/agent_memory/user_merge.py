"""Merge two users: what belongs to one moves to the other."""

from memrelay.memory.engine.counters import TallyTable
from memrelay.memory.engine.store import Transaction
from memrelay.memory.engine.timestamps import next_change_ms
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import Refused
from memrelay.memory.models.agent_memory.table import IDENTIFIERS, UserTable
from memrelay.memory.models.agent_memory.user_records import (
    UserView,
    data_of,
    fetch_user,
    packed,
    view_user,
)


def merge_users(tx: Transaction, user_id: str, into: str) -> UserView:
    """Merge a user into another one, and return the other one.

    Facts, episodes and all other records of the user move, with identifiers and counters. If both
    have a fact with a key, that of `into` stays; the other is deleted and stays in the history.

    Raises RecordNotFound: when one of them does not exist.
    Raises Refused: when both are the same user, also through earlier merges.
    """
    source, target = fetch_user(tx, user_id), fetch_user(tx, into)
    if source.guid == target.guid:
        raise Refused(
            f"{user_id!r} and {into!r} are already the same user, "
            f"{target.whole.key!r}; nothing is left to merge"
        )
    source_id, target_id = source.whole.key or "", target.whole.key or ""
    for place in tx.table(UserTable).belongings(source_id):
        _move(tx, place, source_id, target_id)
    merged = _unite(tx, source, target)
    tx.table(TallyTable).move(source.guid, target.guid)
    return view_user(tx, merged)


def _move(tx: Transaction, place: StoredRecord, source_id: str, target_id: str) -> None:
    before = place.whole
    after = before._replace(
        scope=f"user:{target_id}" if before.scope == f"user:{source_id}" else before.scope,
        owner=target_id if before.owner == source_id else before.owner,
        updated_at=next_change_ms(tx.records.versions.now_ms, before.updated_at),
    )
    if tx.key_holder(after) is not None:
        tx.records.delete(place)
    else:
        tx.records.overwrite(place, after)


def _unite(tx: Transaction, source: StoredRecord, target: StoredRecord) -> State:
    """Move identifiers, names and preferences; those of the target win. Return the target."""
    lost, won = data_of(source.whole), data_of(target.whole)
    moved = {name: lost[name] for name in IDENTIFIERS if lost.get(name) and not won.get(name)}
    rest = {name: value for name, value in lost.items() if name not in moved}
    # First, because an identifier is unique.
    tx.table(UserTable).change(
        source, source.whole._replace(data=packed(rest | {"merged_into": target.whole.key}))
    )
    preferences = {**lost.get("preferences", {}), **won.get("preferences", {})}
    data = packed(won | moved | {"preferences": preferences})
    name = target.whole.content or source.whole.content
    return tx.table(UserTable).change(target, target.whole._replace(content=name, data=data))
