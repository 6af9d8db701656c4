"""The records that a run has made or changed, and the inputs that led to them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from memrelay.memory.engine.as_of import TOUCHED
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.versions import State, stored_records
from memrelay.rehearsal.runner import ChangeLog, Side


class RunRecord(NamedTuple):
    """A record of a store after a run.

    `state` is None if the record is gone. `is_old` if it was there before the run. `input` is the
    number of the input that created it, None for an old record, or if that is not known.
    `result_of` is that of the input whose kept result of a deferred call led to its state, None for
    none.
    """

    store: str
    guid: str
    state: State | None
    is_old: bool = True
    input: int | None = None
    result_of: int | None = None

    @property
    def kind(self) -> str:
        return self.state.kind if self.state is not None else ""

    @property
    def content(self) -> str:
        return self.state.content if self.state is not None else ""

    @property
    def source(self) -> str:
        return self.state.source if self.state is not None else ""


def list_records(side: Side) -> list[RunRecord]:
    """Return the records that a run has created, changed or deleted, by store in their order.

    A record that the run created and deleted again is left out.
    """
    return [
        record
        for name, log in side.changes.items()
        for record in _touched(side.stores.get(name), log, side.first_changes[name])
    ]


def list_untouched(
    side: Side, records: Sequence[RunRecord], others: Sequence[RunRecord]
) -> list[RunRecord]:
    """Return the old records that the other side has touched and this one has not."""
    touched = {(one.store, one.guid) for one in records}
    missing = [one for one in others if one.is_old and (one.store, one.guid) not in touched]
    return [
        RunRecord(one.store, one.guid, find_state(side.stores.get(one.store), one.guid))
        for one in missing
    ]


def _touched(store: Store, log: ChangeLog, first: int) -> Iterator[RunRecord]:
    found = list[tuple[int, str, State | None]]()
    with store.transaction() as tx:
        tx.records.flush()
        tx.records.versions.flush()
        touched = [str(guid) for (guid,) in tx.connection.execute(TOUCHED, (first,))]
        for guid in touched:
            state = find_state(store, guid)
            birth = find_birth(tx, guid, state)
            if state is not None or birth <= first:
                found.append((birth, guid, state))
    for birth, guid, state in sorted(found, key=lambda one: one[:2]):
        is_old = birth <= first
        number = None if is_old else log.find(birth)
        result_of = None if state is None else log.find_result(state.born)
        yield RunRecord(store.memory_id, guid, state, is_old, number, result_of)


def find_birth(tx: Store, guid: str, state: State | None) -> int:
    """Return the change that created a record, as far as its versions are kept."""
    if state is not None and state.number == 1:
        return state.born
    present = () if state is None else (state.content, state.number)
    born = [one.state.born for one in tx.records.versions.of(guid, *present)]
    return min(born if state is None else [*born, state.born])


def find_state(store: Store, guid: str) -> State | None:
    """Return the present state of a record, None if it is gone."""
    place = next(stored_records(store.connection, " WHERE guid = ?", [guid]), None)
    return None if place is None else place.state
