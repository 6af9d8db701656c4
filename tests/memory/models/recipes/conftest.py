"""A built-in store `recipes` in a transaction."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay.memory.engine.store import Store
from tests.memory.builders import RECIPES_ID, assert_sound, make_store


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path, RECIPES_ID)
    with store.transaction() as tx:
        yield tx
    store.close()
    assert_sound(store.path)
