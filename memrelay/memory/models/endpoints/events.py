"""Events: the types that endpoints get, and how changes of records are called.

A change is one event. Records of some kinds have names of their own, which the manifests of their
models declare: the creation of an entry is `entry.created` and not also `record.created`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from typing import Any, NamedTuple

import orjson

from memrelay.memory.engine.feed import (
    APPENDED,
    CREATED,
    DELETED,
    ERASED,
    EVENT,
    EXPIRED,
    RESTORED,
    TYPES,
    UPDATED,
    Change,
)
from memrelay.memory.engine.memory_id import built_in_name, is_closed
from memrelay.memory.engine.models import kind_events, load
from memrelay.memory.engine.store import Store
from memrelay.memory.records.view import view

# Events that are no changes of a store.
DEAD_LETTER_ADDED, DEPLOYED = "dead_letter.added", "pipeline.deployed"
DISABLED = "endpoint.disabled"
RECORD_TYPES = (CREATED, UPDATED, APPENDED, RESTORED, DELETED, EXPIRED, ERASED)
KINDS = "SELECT guid, kind FROM records WHERE guid IN (SELECT value FROM json_each(?))"
DELETED_KINDS = "SELECT guid, kind FROM versions WHERE guid IN (SELECT value FROM json_each(?))"


class Event(NamedTuple):
    """The event of a change. `data` is JSON of further ids, None for none."""

    type: str
    data: str | None


@cache
def list_event_types() -> tuple[str, ...]:
    """Return all types of events, without `endpoint.test`."""
    named = [*TYPES, APPENDED, RESTORED, DEAD_LETTER_ADDED, DEPLOYED, DISABLED]
    for events in kind_events().values():
        named += [*events.names.values(), *events.further]
    return tuple(sorted(set(named)))


@cache
def _record_types() -> frozenset[str]:
    """Return the events that are about a record."""
    named = {one for events in kind_events().values() for one in events.names.values()}
    further = {one for events in kind_events().values() for one in events.further}
    return frozenset(RECORD_TYPES) | named | further


@cache
def _deletions() -> frozenset[str]:
    """Return the events of records after which there is no record."""
    named = {events.names.get(DELETED, DELETED) for events in kind_events().values()}
    return frozenset(named | {DELETED, EXPIRED, ERASED})


def is_deletion(type_: str) -> bool:
    """Return whether there is no record after an event."""
    return type_ in _deletions()


def is_about_record(type_: str) -> bool:
    """Return whether the subject of an event is a record."""
    return type_ in _record_types()


def find_events(store: Store, changes: Sequence[Change]) -> list[Event]:
    """Return the events of changes, in their order."""
    kinds = _find_kinds(store, [one.subject for one in changes if is_about_record(one.type)])
    built_in = built_in_name(store.memory_id)
    return [_find_event(one, kinds.get(one.subject, ""), built_in) for one in changes]


def _find_kinds(store: Store, guids: Sequence[str]) -> Mapping[str, str]:
    """Return the kinds of records by their guid. Expired and erased ones have none."""
    if not guids:
        return {}
    kinds = dict(store.connection.execute(KINDS, (_to_json(guids),)))
    gone = [guid for guid in guids if guid not in kinds]
    if gone:
        kinds |= dict(store.connection.execute(DELETED_KINDS, (_to_json(gone),)))
    return kinds


def _to_json(guids: Sequence[str]) -> str:
    return orjson.dumps(guids).decode()


def _find_event(change: Change, kind: str, built_in: str) -> Event:
    data = {} if change.data is None else orjson.loads(change.data)
    name = data.pop(EVENT, change.type)
    events = kind_events().get(kind)
    if events is not None and events.store in ("", built_in):
        name = events.names.get(name, name)
    return Event(name, orjson.dumps(data).decode() if data else None)


def show_record(store: Store, guid: str, type_: str) -> dict[str, Any]:
    """Return the record of an event as its operations show it, or its ids.

    Raises RecordDamaged.
    """
    ids = {"guid": guid, "store": store.memory_id}
    if type_ == ERASED:
        return ids
    stored = store.records.by_guid(guid)
    last = store.records.versions.deleted(guid) if stored is None else stored
    if last is None:
        if is_deletion(type_):
            return ids
        was_deleted = store.records.versions.count_of(guid) > 0
        return ids | ({"deleted": True} if was_deleted else {"id": guid, "erased": True})
    events = None if type_ in RECORD_TYPES else kind_events().get(last.state.kind)
    if events is not None and events.has_ids_only:
        ids = asdict(load(events.view)(store, last.state)) | ids
    if is_deletion(type_):
        return ids
    if stored is None:
        return ids | {"deleted": True}
    state = stored.state
    if is_closed(store.memory_id) or state.encrypted:
        return ids
    if events is not None:
        return asdict(load(events.view)(store, state)) | ids
    return asdict(view(state.record, state.extras)) | ids
