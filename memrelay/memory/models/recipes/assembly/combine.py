"""Combine the items of several recipes into sections within a token budget."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memrelay.memory.models.named_memories.knowledge import BEGIN, END, escape_fence, one_line_name

# The order of sections in a context.
SECTIONS = (
    "state",
    "warnings",
    "constraints",
    "knowledge",
    "history",
    "suggestions",
    "working_memory",
)
CHARACTERS_A_TOKEN = 4


@dataclass(frozen=True, slots=True)
class ContextItem:
    """An item of a context."""

    id: str
    """The id of the item in its recipe."""
    text: str
    """The text."""
    memory_id: str
    """The recipe that delivered it."""
    memory_label: str
    """The label of the recipe."""
    priority: str
    """The priority of the recipe: low, medium, high or critical."""
    weight: int
    """The priority as a number, 1 to 4."""
    tokens: int
    """The estimated length: one token for four characters."""


@dataclass(frozen=True, slots=True)
class RecipeItems:
    """The items of a recipe, the best first, before the cut to `max_items`."""

    section: str
    max_items: int
    items: tuple[ContextItem, ...]


@dataclass(frozen=True, slots=True)
class Combined:
    """The items by section, in the order of sections, and whether the budget dropped items."""

    sections: dict[str, tuple[ContextItem, ...]]
    truncated: bool


def combine(contributions: Sequence[RecipeItems], max_tokens: int | None) -> Combined:
    """Return the items of all recipes by section, the highest weight first.

    Equal texts occur once, with the highest weight. Each recipe has at most its `max_items`. Over
    the budget, items are dropped: the lowest weight first, in it the last section, in it the last
    item.
    """
    best = _keep_distinct(contributions)
    # (position of the section, item)
    placed = list[tuple[int, ContextItem]]()
    for contribution in contributions:
        items = [item for item in contribution.items if best[item.text] is item]
        section = SECTIONS.index(contribution.section)
        placed += [(section, item) for item in items[: contribution.max_items]]
    # Stable: equal weights keep the order of recipes.
    placed.sort(key=lambda one: (one[0], -one[1].weight))
    fitting = _fit(placed, max_tokens)
    sections = dict[str, list[ContextItem]]()
    for section, item in fitting:
        sections.setdefault(SECTIONS[section], []).append(item)
    filled = {name: tuple(items) for name, items in sections.items()}
    return Combined(filled, len(fitting) < len(placed))


def _keep_distinct(contributions: Iterable[RecipeItems]) -> dict[str, ContextItem]:
    """Return for each text the first item with the highest weight."""
    best = dict[str, ContextItem]()
    for contribution in contributions:
        for item in contribution.items:
            held = best.get(item.text)
            if held is None or item.weight > held.weight:
                best[item.text] = item
    return best


def _fit(
    placed: list[tuple[int, ContextItem]], max_tokens: int | None
) -> list[tuple[int, ContextItem]]:
    """Return the items that fit into the budget, in their order."""
    if max_tokens is None:
        return placed
    surplus = sum(item.tokens for _, item in placed) - max_tokens
    order = sorted(range(len(placed)), key=lambda at: (placed[at][1].weight, -at))
    dropped = set[int]()
    for at in order:
        if surplus <= 0:
            break
        surplus -= placed[at][1].tokens
        dropped.add(at)
    return [one for at, one in enumerate(placed) if at not in dropped]


def count_tokens(text: str) -> int:
    """Return the estimated tokens of a text."""
    return -(-len(text) // CHARACTERS_A_TOKEN)


def render(sections: dict[str, tuple[ContextItem, ...]]) -> str:
    """Return the items as one fenced text for a prompt, "" without items.

    A text can neither end the fence nor imitate a line of another recipe.
    """
    lines = [
        f"[{section}: {one_line_name(item.memory_label)}] {escape_fence(item.text)}\n"
        for section, items in sections.items()
        for item in items
    ]
    return BEGIN + "".join(lines) + END if lines else ""
