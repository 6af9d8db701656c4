"""Convert items to the kind that `--as` names."""

from collections.abc import Callable, Iterator
from typing import Any

from memrelay.memory.transfer.importers.items import Fact, Found, Plain, Texted, Turn

TextItem = Fact | Plain | Turn


def convert_items(found: Iterator[Found], source: str, target: str) -> Iterator[Found]:
    """Yield the items as facts, records or turns. Faults, nodes and edges stay as they are.

    Fields without a place in the target kind go into `data`. An item that has no position in a
    thread gets its number among the items.
    """
    wanted, convert = _CONVERSIONS[target]
    for number, one in enumerate(found):
        if isinstance(one, wanted) or not isinstance(one, TextItem):
            yield one
        else:
            yield convert(one, source, number)


def _as_fact(item: TextItem, source: str, number: int) -> Fact:
    thread = getattr(item, "thread", None)
    place = item.owner or thread
    common = _common(item, "seq", "kind", "key") | {"source": ""}
    if item.source:
        common["data"] |= {"source": item.source}
    return Fact(**common, memory=f"{source}/{place}" if place else source, thread=thread)


def _as_record(item: TextItem, source: str, number: int) -> Plain:
    kind = "fact" if isinstance(item, Fact) else "message"
    return Plain(**_common(item, "memory", "thread", "seq"), kind=kind)


def _as_turn(item: TextItem, source: str, number: int) -> Turn:
    thread = getattr(item, "thread", None) or getattr(item, "memory", None) or source
    return Turn(**_common(item, "memory", "kind", "key"), thread=thread, seq=number)


def _common(item: TextItem, *kept_in_data: str) -> dict[str, Any]:
    """Return the fields that all records have. `data` also has those fields that are set."""
    found = {name: getattr(item, name) for name in Texted.__struct_fields__}
    others = {name: getattr(item, name, None) for name in kept_in_data}
    found["data"] = {**item.data, **{name: one for name, one in others.items() if one is not None}}
    return found


_CONVERSIONS: dict[str, tuple[type[TextItem], Callable[[TextItem, str, int], TextItem]]] = {
    "facts": (Fact, _as_fact),
    "records": (Plain, _as_record),
    "turns": (Turn, _as_turn),
}
TARGETS = (*_CONVERSIONS,)
