"""Read a source as lines of an export: the part of an import that needs no store."""

from collections.abc import Iterator
from typing import NamedTuple

from memrelay.memory.errors import BadExport
from memrelay.memory.transfer.importers.items import AnyItem, Fault, LeftOut
from memrelay.memory.transfer.importers.lines import LineMaker, Prepared
from memrelay.memory.transfer.importers.seen import SeenItems
from memrelay.memory.transfer.importers.source import Given, RefusedFile, Source, all_sources
from memrelay.memory.transfer.importers.targets import convert_items

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
    found = [one for one in sources.values() if one.detect(given.file)]
    if len(found) != 1:
        names = ", ".join(one.name for one in found or sources.values())
        rule = "matches several sources" if found else "has the structure of no source"
        raise RefusedFile(f"{given.file} {rule}; name one with --from: {names}")
    return found[0]


def read_lines(source: Source, given: Given, options: Options) -> Iterator[Outcome]:
    """Yield what becomes of each item, in the order of the file.

    Raises RefusedFile and OSError.
    """
    maker = LineMaker(source.name, owner=options.owner, now_ms=options.now_ms)
    found = source.read(given)
    if given.target:
        found = convert_items(found, source.name, given.target)
    with SeenItems() as seen:
        for one in found:
            yield one if isinstance(one, Fault) else _prepare(one, maker, seen, options)


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
