"""Each state of a record knows its origin, and each change its input."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.json import encode as to_json

from memrelay.memory.engine.origins import MAX_CHARACTERS, Origin
from memrelay.memory.engine.store import Store
from memrelay.memory.operations import Context, all_operations
from memrelay.memory.transfer.export import export_lines
from tests.memory.builders import MEMORY_ID, NOW, PLENTY, make_guid, make_store

ADA = Origin("ada", key="k1", profile="rest")
BOB = Origin("bob", "User", "webhook:github", "verified", agent="inbox")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def perform(tx: Store, origin: Origin, name: str, input_id: str = "", /, **given: Any) -> Any:
    operation = all_operations()[name]
    context = Context(NOW, origin.actor, PLENTY, make_guid, origin=tuple(origin), input_id=input_id)
    return operation.run(tx, operation.adapter.validate_python(given), context)


def origins_of(tx: Store, guid: str) -> list[tuple[Origin | None, Origin | None, int | None]]:
    """Return (origin of the state, origin and input of the change that ended it), the latest
    first.
    """
    place = tx.records.by_guid(guid)
    present = () if place is None else (place.content, place.state.number)
    find = tx.records.versions.origins.find
    first = [] if place is None else [(find(place.state.origin), None, None)]
    return first + [
        (find(one.state.origin), find(one.ended_by), one.sequence)
        for one in tx.records.versions.of(guid, *present)
    ]


def count(store: Store) -> int:
    return int(store.connection.execute("SELECT count(*) FROM origins").get)


def test_each_state_has_its_origin_and_each_change_its_input(store: Store) -> None:
    with store.transaction() as tx:
        guid = perform(tx, ADA, "records.create", content="tea").guid
        perform(tx, BOB, "records.update", f"{NOW}-7.1+2", guid=guid, content="coffee")
        perform(tx, ADA, "records.update", guid=guid, tags=["hot"])
        perform(tx, BOB, "records.delete", f"{NOW}-0", guid=guid)
        perform(tx, ADA, "records.restore", guid=guid)

    with store.transaction() as tx:
        found = origins_of(tx, guid)
    assert [ended for _, ended, _ in found[1:]] == [ADA, BOB, ADA, BOB]
    assert [number for _, _, number in found[1:]] == [None, 0, None, 7]
    # The second one is the time without the record.
    assert [state for state, _, _ in found[:1] + found[2:]] == [ADA, ADA, BOB, ADA]
    assert count(store) == 2


def test_appends_to_a_long_record_have_origins_of_their_own(store: Store) -> None:
    with store.transaction() as tx:
        guid = perform(tx, ADA, "records.create", content="x" * 5000).guid
        for origin in (BOB, ADA, BOB):
            perform(tx, origin, "records.append", guid=guid, content=origin.actor)
    with store.transaction() as tx:
        found = origins_of(tx, guid)
    assert [state for state, _, _ in found] == [BOB, ADA, BOB, ADA]
    assert [ended for _, ended, _ in found[1:]] == [BOB, ADA, BOB]


def test_an_origin_that_is_rolled_back_is_written_again(store: Store) -> None:
    with suppress(ZeroDivisionError), store.transaction() as tx:
        perform(tx, ADA, "records.create", content="tea")
        raise ZeroDivisionError
    assert count(store) == 0

    with store.transaction() as tx:
        guid = perform(tx, ADA, "records.create", content="tea").guid
        assert origins_of(tx, guid) == [(ADA, None, None)]


def test_long_names_are_cut(store: Store) -> None:
    for _ in range(2):
        with store.transaction() as tx:
            guid = perform(tx, Origin("a", "s" * 1000), "records.create", content="tea").guid
            found = origins_of(tx, guid)
    assert found == [(Origin("a", "s" * MAX_CHARACTERS), None, None)]
    assert count(store) == 1


def test_an_import_is_one_origin(store: Store, tmp_path: Path) -> None:
    with store.transaction() as tx:
        guid = perform(tx, BOB, "records.create", content="tea").guid
        perform(tx, BOB, "records.update", guid=guid, content="coffee")
    lines = [to_json(line).decode() for line in export_lines(Path(store.path), MEMORY_ID, NOW)]
    other = make_store(tmp_path / "other")
    with other.transaction() as tx:
        perform(tx, ADA, "records.import", "5-1", lines=lines, label="notes.md")
        label = ADA._replace(profile="import:notes.md")
        assert {state for state, _, _ in origins_of(tx, guid)} == {label}
        assert len(origins_of(tx, guid)) == 2
    other.close()
