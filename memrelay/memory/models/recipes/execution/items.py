"""Items and results: the text of an item, groups as one list, sorting, and formats."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import orjson

from memrelay.memory.models.recipes.execution.conditions import MISSING, get_field, is_number
from memrelay.memory.models.recipes.step import Item, Items, Result, StepCall

# The most items that a step may return.
MAX_ITEMS = 1000
# An item's text is the first of these fields that it has.
TEXT_FIELDS = ("text", "content", "summary", "message", "value", "label", "title", "name")
Format = Literal["bullet_list", "numbered", "prose", "json", "markdown"]
# The first of these fields is bold in Markdown.
NAME_FIELDS = ("key", "title", "label", "name")
SENTENCE_ENDS = (".", "!", "?")


def item_text(item: Any) -> str:
    """Return the text of an item or another value. What is no text becomes compact JSON."""
    if isinstance(item, dict):
        item = next((item[field] for field in TEXT_FIELDS if field in item), item)
    return compact(item)


def compact(value: Any) -> str:
    """Return a text itself, and any other value as compact JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def flatten(result: Result) -> Items:
    """Return the items of a result, groups in their order. Texts and booleans have none."""
    if isinstance(result, list):
        return result
    if isinstance(result, dict):
        return [item for items in result.values() for item in items]
    return []


def result_text(result: Result) -> str:
    """Return a text itself, and the texts of items joined by spaces."""
    return result if isinstance(result, str) else " ".join(map(item_text, flatten(result)))


def read_source(call: StepCall, alias: str) -> Result:
    """Return the result of an alias; an empty list with a warning if its step did not run."""
    result = call.results.get(alias)
    if result is None:
        call.warn("no_input", f'there is no result "{alias}"; its items are left out')
        return []
    return result


def identity(value: Any) -> Any:
    """Return a value that is equal and hashable for equal JSON values of one type."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | None):
        return type(value), orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    return value


def first_of_each(items: Iterable[Item], field: str, most: int | None = None) -> Items:
    """Return the first item for each value of a field, and all items without the field.

    With `most`, only so many items are returned.
    """
    seen: set[Any] = set()
    first_items = list[Item]()
    for item in items:
        if len(first_items) == most:
            break
        value = get_field(item, field)
        if value is not MISSING:
            key = identity(value)
            if key in seen:
                continue
            seen.add(key)
        first_items.append(item)
    return first_items


def sort_descending(items: Items, field: str) -> Items:
    """Sort by a field: numbers, then texts, then items without either. Equal items keep their
    order.
    """
    numbers, texts, others = [], [], []
    for item in items:
        value = get_field(item, field)
        if is_number(value):
            numbers.append((value, item))
        elif isinstance(value, str):
            texts.append((value, item))
        else:
            others.append(item)
    numbers.sort(key=_first, reverse=True)
    texts.sort(key=_first, reverse=True)
    return [item for _, item in numbers] + [item for _, item in texts] + others


def _first(pair: tuple[Any, Item]) -> Any:
    return pair[0]


def format_items(items: Sequence[Item], style: str) -> str:
    """Return the items in a format. Further lines of a list entry are indented below its text."""
    if style == "json":
        return orjson.dumps(items).decode()
    if style == "markdown":
        return "\n".join(_entry("- ", _with_name(item)) for item in items)
    texts = map(item_text, items)
    if style == "prose":
        return " ".join(text if text.endswith(SENTENCE_ENDS) else f"{text}." for text in texts)
    if style == "numbered":
        return "\n".join(_entry(f"{n}. ", text) for n, text in enumerate(texts, 1))
    return "\n".join(_entry("- ", text) for text in texts)


def _entry(mark: str, text: str) -> str:
    if "\n" not in text:
        return mark + text
    return mark + text.replace("\n", "\n" + " " * len(mark))


def _with_name(item: Item) -> str:
    text = item_text(item)
    name = next((compact(item[field]) for field in NAME_FIELDS if field in item), "")
    return f"**{name}**: {text}" if name and name != text else text
