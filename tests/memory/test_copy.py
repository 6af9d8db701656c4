"""A store is copied as it is at one moment, or not at all."""
import resource
from pathlib import Path

import pytest

from memory.errors import StoreBusy
from memory.sqlite.copy import copy_database
from tests.memory.builders import make_store, write_all


def test_where_there_is_no_room_for_a_copy_the_place_and_the_remedy_are_named(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    write_all(store, "x" * 300_000)
    (folder := tmp_path / "copies").mkdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(StoreBusy, match=f"could not be copied to {folder}: make room there, and try again$"):
            copy_database(Path(store.path), folder / "copy")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    copy_database(Path(store.path), folder / "whole")
