"""The handler `pick`."""

from collections.abc import Mapping
from typing import Any

from memrelay.memory.models.recipes.execution.conditions import MISSING, get_field
from memrelay.memory.models.recipes.handlers import handler
from memrelay.memory.models.recipes.step import Items

MAX_FIELDS = 32


@handler("pick")
def pick_fields(items: Items, args: Mapping[str, Any], run: Mapping[str, Any]) -> Items:
    """Return the items with only the fields that `args.fields` lists. Raises ValueError."""
    fields = args.get("fields")
    if not isinstance(fields, list) or not all(isinstance(one, str) for one in fields):
        raise ValueError('args must be like {"fields": ["text"]}')
    if len(fields) > MAX_FIELDS:
        raise ValueError(f"args.fields may have at most {MAX_FIELDS} entries")
    picked = []
    for item in items:
        values = {field: get_field(item, field) for field in fields}
        picked.append({field: value for field, value in values.items() if value is not MISSING})
    return picked
