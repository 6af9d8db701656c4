"""Stored recipes for tests."""

from typing import Any

import orjson

from memrelay.memory.agents.keyed_table import new_state
from memrelay.memory.records.kinds import RECIPE_KIND
from memrelay.memory.sqlite.store import Store
from tests.memory.builders import NOW, make_guid


def store_recipe(tx: Store, ident: str, *steps: dict[str, Any], **more: Any) -> None:
    """Store a valid definition."""
    definition = {"id": ident, "label": ident.title(), "retrieval": {"pipeline": steps}} | more
    state = new_state(make_guid(), RECIPE_KIND, NOW, "tester")
    text = orjson.dumps(definition, option=orjson.OPT_SORT_KEYS).decode()
    tx.recipes.definitions.insert(state._replace(key=ident, content=text))
