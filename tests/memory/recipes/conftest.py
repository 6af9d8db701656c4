"""A home `recipes` in a transaction."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay.memory.sqlite.store import Store
from tests.memory.builders import assert_sound, make_store

HOME = "instances/a3d8f1b2/recipes"


@pytest.fixture
def tx(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path, HOME)
    with store.transaction() as tx:
        yield tx
    store.close()
    assert_sound(store.path)
