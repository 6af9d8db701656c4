"""records.origin returns the chain of a record, back to the first message."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.origins import Origin
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import RecordNotFound
from memrelay.memory.models.provenance.listing import OriginList
from tests.memory.builders import NOW, make_guid, make_store
from tests.memory.builders import perform as perform_plain
from tests.memory.engine.test_origins import ADA, BOB, perform

MESSAGE = f"{NOW}-7"
TURN = Origin("bot", profile=f"turn:{MESSAGE}.1+0", agent="bot", model="stub")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def trace(tx: Store, guid: str, **given: Any) -> OriginList:
    return perform_plain(tx, "records.origin", guid=guid, **given)


def test_the_chain_names_each_writer_change_and_message(store: Store) -> None:
    with store.transaction() as tx:
        guid = perform(tx, BOB, "records.create", content="tea").guid
        perform(tx, ADA, "records.update", MESSAGE, guid=guid, content="coffee")
        perform(tx, TURN, "records.append", f"{NOW}-9", guid=guid, content="black")
        perform(tx, ADA, "records.delete", guid=guid)

        found = trace(tx, guid)
        perform(tx, BOB, "records.restore", guid=guid)
        restored = trace(tx, guid)

    first = "-".join(make_guid_input(guid))
    assert [(one.number, one.change, one.actor, one.message) for one in found.items] == [
        (4, "delete", "ada", ""),
        (3, "append", "bot", MESSAGE),
        (2, "update", "ada", MESSAGE),
        (1, "create", "bob", first),
    ]
    assert found.items[1].model == "stub" and found.items[3].verdict == "verified"
    assert [(one.change, one.actor) for one in restored.items[:2]] == [
        ("restore", "bob"),
        ("delete", "ada"),
    ]
    assert restored.items[2:] == found.items[1:]


def make_guid_input(guid: str) -> tuple[str, str]:
    """Return the time and the number in a guid of the builders."""
    value = int(guid.replace("-", ""), 16)
    return str(value >> 80), str((value >> 64 & 0xFFF) << 12 | value >> 50 & 0xFFF)


def test_pages_have_each_state_once(store: Store) -> None:
    with store.transaction() as tx:
        guid = perform(tx, ADA, "records.create", content="0").guid
        for number in range(6):
            perform(tx, BOB, "records.update", guid=guid, content=str(number + 1))
        found, cursor = [], ""
        while cursor is not None:
            page = trace(tx, guid, limit=3, cursor=cursor)
            found += [one.number for one in page.items]
            cursor = page.next_cursor
    assert found == [7, 6, 5, 4, 3, 2, 1] and page.total == 7


def test_an_unknown_record_has_no_origin(store: Store) -> None:
    with store.transaction() as tx, pytest.raises(RecordNotFound):
        trace(tx, make_guid())
