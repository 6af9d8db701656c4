"""Stored recipes for tests, and a handler that delivers given items."""

from collections.abc import Mapping
from typing import Any

import orjson

from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.store import Store
from memrelay.memory.models.recipes import RECIPE_KIND
from memrelay.memory.models.recipes.handlers import all_handlers, handler
from memrelay.memory.models.recipes.step import Items
from memrelay.memory.models.recipes.table import RecipeTables
from tests.memory.builders import NOW, make_guid


@handler("given_items")
def given_items(items: Items, args: Mapping[str, Any], run: Mapping[str, Any]) -> Items:
    """Return the items in `args`. Raises ValueError: `args` has an error."""
    if "error" in args:
        raise ValueError(args["error"])
    return list(args["items"])


# Other tests may have listed the handlers before.
all_handlers.cache_clear()


def deliver(*texts: str, **args: Any) -> dict[str, Any]:
    """Return a step that delivers one item for each text."""
    items = [{"id": f"i{at}", "text": text} for at, text in enumerate(texts)]
    return {"type": "custom", "handler": "given_items", "args": {"items": items} | args}


def store_recipe(tx: Store, ident: str, *steps: dict[str, Any], **more: Any) -> None:
    """Store a valid definition."""
    definition = {"id": ident, "label": ident.title(), "retrieval": {"pipeline": steps}} | more
    state = new_state(make_guid(), RECIPE_KIND, NOW, "tester")
    text = orjson.dumps(definition, option=orjson.OPT_SORT_KEYS).decode()
    tx.table(RecipeTables).definitions.insert(state._replace(key=ident, content=text))
