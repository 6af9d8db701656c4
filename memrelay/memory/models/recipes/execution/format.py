"""Format items as the text that goes into a prompt."""

from collections.abc import Sequence
from typing import Literal

import orjson

from memrelay.memory.models.recipes.execution.items import compact, item_text
from memrelay.memory.models.recipes.step import Item

Format = Literal["bullet_list", "numbered", "prose", "json", "markdown"]
# The first of these fields is bold in Markdown.
NAME_FIELDS = ("key", "title", "label", "name")
SENTENCE_ENDS = (".", "!", "?")


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
