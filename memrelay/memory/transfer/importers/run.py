"""Read a source as lines of an export: the part of an import that needs no store."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from memrelay.memory.errors import BadExport
from memrelay.memory.transfer.importers.items import (
    AnyItem,
    Fact,
    Fault,
    Found,
    LeftOut,
    Plain,
    Texted,
    Turn,
)
from memrelay.memory.transfer.importers.lines import LineMaker, Prepared
from memrelay.memory.transfer.importers.report import SeenItems
from memrelay.memory.transfer.importers.source import Given, RefusedFile, Source, all_sources

TextItem = Fact | Plain | Turn
# The name that stands for the source that recognizes the file.
AUTO = "auto"


class Options(NamedTuple):
    """Options of an import that apply to each item."""

    # Unix ms: only items created at or after this time.
    since: int | None = None
    owner: str = ""
    # Unix ms, the time of the import.
    now_ms: int = 0


class Same(NamedTuple):
    """An item that repeats an earlier item of the file."""

    position: str


class Ready(NamedTuple):
    """An item to import."""

    position: str
    prepared: Prepared


Outcome = Ready | Same | Fault


def find_source(name: str, given: Given) -> Source:
    """Return a source by its name; `auto` stands for the one that recognizes the file.

    Raises BadExport: the source is unknown, or none or several recognize the file.
    """
    sources = all_sources()
    if name in sources:
        return sources[name]
    if name != AUTO:
        raise BadExport(f"unknown source {name!r}; use one of {', '.join(sources)}, {AUTO}")
    if given.path is None:
        raise BadExport(f"{AUTO} needs a file; use --from redis-ams with --url")
    matching = [source for source in sources.values() if source.detect(given.file)]
    if len(matching) != 1:
        names = ", ".join(source.name for source in matching or sources.values())
        rule = "matches several sources" if matching else "has the structure of no source"
        raise RefusedFile(f"{given.file} {rule}; name one with --from: {names}")
    return matching[0]


def read_lines(source: Source, given: Given, options: Options) -> Iterator[Outcome]:
    """Yield what becomes of each item, in the order of the file.

    Raises RefusedFile and OSError.
    """
    maker = LineMaker(source.name, owner=options.owner, now_ms=options.now_ms)
    items = source.read(given)
    if given.target:
        items = convert_items(items, source.name, given.target)
    with SeenItems() as seen:
        for item in items:
            yield item if isinstance(item, Fault) else _prepare(item, maker, seen, options)


def _prepare(item: AnyItem, maker: LineMaker, seen: SeenItems, options: Options) -> Outcome:
    try:
        if options.since is not None:
            _check_age(item, options.since)
        prepared = maker.prepare(item)
    except LeftOut as error:
        return Fault(item.position, str(error))
    is_same = seen.add(prepared.guid, prepared.line)
    if is_same is None:
        return Ready(item.position, prepared)
    if is_same:
        return Same(item.position)
    return Fault(item.position, "an earlier item of the file has the same id and differs")


def _check_age(item: AnyItem, since: int) -> None:
    if item.created_at is None:
        raise LeftOut("it has no time of creation, which --since needs")
    if item.created_at < since:
        raise LeftOut("it is older than --since")


def convert_items(items: Iterator[Found], source: str, target: str) -> Iterator[Found]:
    """Yield the items as facts, records or turns. Faults, nodes and edges stay as they are.

    Fields without a place in the target kind go into `data`. An item that has no position in a
    thread gets its number among the items.
    """
    type_, convert = _CONVERSIONS[target]
    for number, item in enumerate(items):
        if isinstance(item, type_) or not isinstance(item, TextItem):
            yield item
        else:
            yield convert(item, source, number)


def _as_fact(item: TextItem, source: str, number: int) -> Fact:
    thread = getattr(item, "thread", None)
    about = item.owner or thread
    common = _common(item, "seq", "kind", "key") | {"source": ""}
    if item.source:
        common["data"] |= {"source": item.source}
    return Fact(**common, memory=f"{source}/{about}" if about else source, thread=thread)


def _as_record(item: TextItem, source: str, number: int) -> Plain:
    kind = "fact" if isinstance(item, Fact) else "message"
    return Plain(**_common(item, "memory", "thread", "seq"), kind=kind)


def _as_turn(item: TextItem, source: str, number: int) -> Turn:
    thread = getattr(item, "thread", None) or getattr(item, "memory", None) or source
    return Turn(**_common(item, "memory", "kind", "key"), thread=thread, seq=number)


def _common(item: TextItem, *kept_in_data: str) -> dict[str, Any]:
    """Return the fields that all records have. `data` also has those fields that are set."""
    fields = {name: getattr(item, name) for name in Texted.__struct_fields__}
    others = {name: getattr(item, name, None) for name in kept_in_data}
    present = {name: value for name, value in others.items() if value is not None}
    fields["data"] = {**item.data, **present}
    return fields


_CONVERSIONS: dict[str, tuple[type[TextItem], Callable[[TextItem, str, int], TextItem]]] = {
    "facts": (Fact, _as_fact),
    "records": (Plain, _as_record),
    "turns": (Turn, _as_turn),
}
TARGETS = (*_CONVERSIONS,)
