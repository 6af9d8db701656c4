"""Record checksums: they match the stored bytes, and any change of a text changes them."""

from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.engine.copy import inspect
from memrelay.memory.records.record import beginning, checksum, checksum_of_bytes, content_checksum
from tests.memory.builders import append_to, make_store, write_all

TEXTS = st.text(st.characters(exclude_categories=("Cs",)))


@given(st.lists(TEXTS, min_size=6, max_size=6))
def test_the_checksum_of_texts_equals_that_of_their_bytes(texts: list[str]) -> None:
    guid, content, *others = texts

    made = checksum(beginning(*others), guid, content)

    assert made == checksum_of_bytes("\0".join([*others, guid]).encode(), content.encode())
    assert made & 0xFFFFFFFF == content_checksum(content)
    assert 0 <= made < 1 << 63


def test_written_and_appended_records_pass_inspection(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    first, *_ = write_all(store, "tea", "ein Käse", "\0", "x" * 100_000, tags=("a", "ä"))
    with store.transaction() as tx:
        append_to(tx, "more", guid=first)
    store.close()

    found = inspect(Path(store.path))

    assert (found.records, found.unknown, found.faults, found.guids) == (4, 0, [], [])


@pytest.mark.parametrize("column", ["scope", "kind", "source", "tags", "content", "guid"])
def test_a_changed_column_is_found_by_inspection(tmp_path: Path, column: str) -> None:
    store = make_store(tmp_path)
    write_all(store, "tea", "chai")
    store.close()
    connection = apsw.Connection(store.path)
    connection.execute(f"UPDATE records SET {column} = {column} || 'x' WHERE row = 2")
    guid = connection.execute("SELECT guid FROM records WHERE row = 2").get
    connection.close()

    assert inspect(Path(store.path)).guids == [guid]
