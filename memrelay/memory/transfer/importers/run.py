"""Read a source as lines of an export: the part of an import that needs no store.

The report and the ids that it has read are on disk, since a file may have millions of items.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, NamedTuple, Self
from uuid import NAMESPACE_URL, UUID, uuid5

import apsw
import orjson
from msgspec.structs import replace
from pydantic import ValidationError

from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.models import load
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.errors import BadExport, ValueTooLarge
from memrelay.memory.models.named_memories.entry_text import MAX_ENTRY_CHARACTERS
from memrelay.memory.models.named_memories.export import ExportedMemory
from memrelay.memory.models.named_memories.memories import KIND as ENTRY_KIND
from memrelay.memory.models.recipes import INSTANCE_KIND, NODE_KIND
from memrelay.memory.models.recipes.export import ExportedEdge
from memrelay.memory.models.recipes.graph.graph import ENTITY_GRAPH, with_values
from memrelay.memory.models.recipes.graph.knowledge_graph import Entity, make_node
from memrelay.memory.models.recipes.table import make_node_scope
from memrelay.memory.records.data import as_text, checked
from memrelay.memory.records.ids import UID
from memrelay.memory.records.kinds import reserved_fault
from memrelay.memory.records.record import DEFAULT_KIND
from memrelay.memory.records.view import MAX_NAME_CHARACTERS, MOST_TAGS
from memrelay.memory.transfer import importers
from memrelay.memory.transfer.export import Ended, Exported, Line, make_row_line, to_json
from memrelay.memory.transfer.importers.source import (
    EMPTY_TEXT,
    AnyItem,
    Edge,
    Fact,
    Fault,
    LeftOut,
    Node,
    Plain,
    RefusedFile,
    Source,
    SourceInput,
    SourceItem,
    Texted,
    Turn,
    all_sources,
)

# The actor of a deletion that came with the file.
ACTOR = "import"
MAX_LABEL_CHARACTERS = 1024
NAMES = ("owner", "source", "thread", "key", "kind", "memory")


class Prepared(NamedTuple):
    """An item as a line of an export."""

    # The built-in store: `memories`, `recipes`, or "" for a store of the bundle.
    store: str
    guid: str
    line: str
    # The line of the named memory or graph that must exist before, "" for none.
    setup: str
    # A short form for the samples of a dry run.
    sample: str
    # Of a note that a second import may change: its key, and the beginning of the keys of its file.
    key: str = ""
    origin: str = ""


class LineMaker:
    """Makes the lines of one import."""

    def __init__(self, source: str, *, owner: str = "", now_ms: int = 0) -> None:
        self._namespace = uuid5(NAMESPACE_URL, f"memrelay:{source}")
        self._owner, self._now_ms = owner, now_ms
        self._setups: dict[str, tuple[str, str]] = {}

    def prepare(self, item: AnyItem) -> Prepared:
        """Return the line of an item. Raises LeftOut."""
        try:
            guid = str(uuid5(self._namespace, item.id))
            if isinstance(item, Node):
                return self._node(item, guid)
            if isinstance(item, Edge):
                return self._edge(item, guid)
            return self._record(item, guid)
        except ValueTooLarge as error:
            raise LeftOut(str(error)) from error
        except (UnicodeEncodeError, orjson.JSONEncodeError):
            raise LeftOut("a text is not valid Unicode: it has a lone surrogate") from None

    def _record(self, item: Fact | Turn | Plain, guid: str) -> Prepared:
        _check_text(item)
        _check_names(item)
        if item.expires_at is not None and item.expires_at <= self._now_ms:
            raise LeftOut(f"it expired at {format_time(item.expires_at)}")
        store, scope, setup = "", "", ""
        if isinstance(item, Fact):
            store = "memories"
            scope, setup = self._memory(item.memory)
        created_at = item.created_at or item.updated_at or item.deleted_at or 0
        state = Exported(
            guid=guid,
            number=1,
            scope=scope,
            kind=_find_kind(item),
            source=item.source or ("extraction" if isinstance(item, Fact) else ACTOR),
            tags=_format_tags(item),
            created_at=created_at,
            updated_at=max(item.updated_at or 0, created_at),
            key=getattr(item, "key", None) or None,
            owner=self._owner or item.owner or None,
            data=_format_data(item),
            expires_at=item.expires_at,
            in_context=int(item.in_context),
            thread=item.thread or None,
            seq=getattr(item, "seq", None),
            content=item.text,
        )
        line = to_json(_make_line(state, item.deleted_at)).decode()
        about = getattr(item, "memory", None) or item.thread or state.kind
        sample = f"{about}: {item.text}"
        if not isinstance(item, Plain) or not item.origin:
            return Prepared(store, guid, line, setup, sample)
        return Prepared(store, guid, line, setup, sample, item.key or "", item.origin)

    def _node(self, item: Node, guid: str) -> Prepared:
        if not item.name:
            raise LeftOut("the name of the entity is empty")
        for name in (item.name, item.kind):
            _check_label(name)
        at, entity = item.created_at or 0, Entity(item.name, item.kind, item.observations)
        values = with_values(
            new_state(guid, NODE_KIND, at, ACTOR)._replace(scope=make_node_scope(ENTITY_GRAPH)),
            make_node(entity),
        )
        state = Exported(
            guid,
            1,
            values.scope,
            NODE_KIND,
            ACTOR,
            "[]",
            at,
            at,
            key=item.name,
            owner=self._owner or None,
            data=values.data,
            content=values.content,
        )
        line = to_json(Line(record=state)).decode()
        return Prepared("recipes", guid, line, self._graph(), f"{item.kind}: {values.content}")

    def _edge(self, item: Edge, guid: str) -> Prepared:
        for name in (item.from_name, item.to_name, item.kind):
            _check_label(name)
        edge = ExportedEdge(
            guid, ENTITY_GRAPH, item.kind, item.from_name, item.to_name, item.created_at or 0
        )
        line = to_json(make_row_line(edge)).decode()
        sample = f"{item.from_name} {item.kind} {item.to_name}"
        return Prepared("recipes", guid, line, self._graph(), sample)

    def _graph(self) -> str:
        if ENTITY_GRAPH not in self._setups:
            guid = str(uuid5(self._namespace, f"graph {ENTITY_GRAPH}"))
            state = Exported(guid, 1, "graph", INSTANCE_KIND, ACTOR, "[]", 0, 0, key=ENTITY_GRAPH)
            line = to_json(Line(record=replace(state, content=ENTITY_GRAPH))).decode()
            self._setups[ENTITY_GRAPH] = (guid, line)
        return self._setups[ENTITY_GRAPH][1]

    def _memory(self, name: str) -> tuple[str, str]:
        if name not in self._setups:
            ident = f"mem_{UID}_{uuid5(self._namespace, f'memory {name}').hex}"
            memory = make_row_line(ExportedMemory(ident, name, 0, 0))
            self._setups[name] = (ident, to_json(memory).decode())
        return self._setups[name]


def _make_line(state: Exported, deleted_at: int | None) -> Line:
    if deleted_at is None:
        return Line(record=state)
    length = len(state.content or "")
    # A version has no position: a record that is restored keeps its thread.
    return Line(version=state, ended=Ended("delete", deleted_at, ACTOR, length=length))


def _find_kind(item: Texted) -> str:
    if isinstance(item, Fact):
        return ENTRY_KIND
    return item.kind if isinstance(item, Plain) else DEFAULT_KIND


def _check_text(item: Texted) -> None:
    if not item.text.strip():
        raise LeftOut(EMPTY_TEXT)
    if isinstance(item, Fact) and len(item.text) > MAX_ENTRY_CHARACTERS:
        raise LeftOut(
            f"the text has {len(item.text):,} characters; a fact has at most "
            f"{MAX_ENTRY_CHARACTERS:,}. Import it with --as records"
        )


def _check_label(name: str) -> None:
    if len(name) > MAX_LABEL_CHARACTERS or "\0" in name:
        raise LeftOut(
            f"a name or type has more than {MAX_LABEL_CHARACTERS:,} characters or the character NUL"
        )


def _check_names(item: Texted) -> None:
    for name in NAMES:
        value = getattr(item, name, None)
        if value is not None and len(value) > MAX_NAME_CHARACTERS:
            raise LeftOut(f"its {name} has more than {MAX_NAME_CHARACTERS} characters")
    if isinstance(item, Plain) and (rule := reserved_fault(item.kind)):
        raise LeftOut(rule)


def _format_tags(item: Texted) -> str:
    if not item.tags:
        return "[]"
    tags = list(dict.fromkeys(tag.strip() for tag in item.tags if tag.strip()))
    if len(tags) > MOST_TAGS or any(len(tag) > MAX_NAME_CHARACTERS for tag in tags):
        raise LeftOut(
            f"it has more than {MOST_TAGS} tags, or a tag with more than {MAX_NAME_CHARACTERS} "
            "characters"
        )
    return orjson.dumps(tags).decode()


def _format_data(item: Texted) -> str | None:
    if not item.data:
        return None
    try:
        return as_text(checked(dict(item.data)))
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        path = ".".join(map(str, ("data", *first["loc"])))
        raise LeftOut(f"{path}: {first['msg']}"[:300]) from None


CACHE_KIB = 4000
INSERT_FAULT = "INSERT INTO faults(position, reason) VALUES (?, ?)"
SELECT_FAULTS = "SELECT position, reason FROM faults ORDER BY row"
# The first faults of each reason, and after the last of them the number of the others.
SELECT_FIRST_FAULTS = (
    "SELECT position, reason, total, number = ?1 FROM (SELECT row, position, reason, "
    "row_number() OVER (PARTITION BY reason ORDER BY row) AS number, "
    "count(*) OVER (PARTITION BY reason) AS total FROM faults) WHERE number <= ?1 ORDER BY row"
)
SELECT_SEEN = "SELECT digest FROM seen WHERE guid = ?"
INSERT_SEEN = "INSERT INTO seen VALUES (?, ?)"


class ScratchTable:
    """A base of classes that keep rows in a temporary table. Use it as a context."""

    # The statement that creates the table.
    create: ClassVar[str]

    def __enter__(self) -> Self:
        """Create a temporary database, which SQLite deletes when it is closed."""
        self._connection = apsw.Connection("")
        self._connection.execute(
            f"PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-{CACHE_KIB};"
            f"{self.create}; BEGIN"
        ).fetchall()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()


class ImportReport(ScratchTable):
    """Counts the items of an import, and keeps the faults on disk. Use it as a context.

    A part that is left out, such as an image in a message, counts as an item that was read and left
    out. So `read` is the sum of the other counts.
    """

    create = "CREATE TABLE faults(row INTEGER PRIMARY KEY, position TEXT, reason TEXT) STRICT"

    def __init__(self) -> None:
        self.counts = Counter[str](read=0, added=0, same=0)
        self.notes: dict[str, None] = {}
        self.samples: list[str] = []
        # The keys of notes of an earlier import that the file no longer has.
        self.vanished: list[str] = []

    @property
    def has_imported(self) -> bool:
        """Whether an item was imported, or is there from an earlier import."""
        return self.counts["read"] > self.counts["left_out"]

    def leave_out(self, position: str, reason: str) -> None:
        """Count an item that is left out."""
        self.counts["left_out"] += 1
        texts = (one.encode(errors="backslashreplace").decode() for one in (position, reason))
        self._connection.execute(INSERT_FAULT, tuple(texts))

    def faults(self) -> Iterator[Fault]:
        """Yield all faults in the order in which they were found."""
        return (Fault(*row) for row in self._connection.execute(SELECT_FAULTS))

    def lines(self, first: int) -> Iterator[str]:
        """Yield a text per fault, at most `first` for one reason, and the number of the others."""
        for position, reason, total, is_last in self._connection.execute(
            SELECT_FIRST_FAULTS, (first,)
        ):
            yield f"{position}: {reason}"
            if is_last and total > first:
                yield f"{total - first:,} more: {reason}"

    def as_json(self) -> dict[str, Any]:
        """Return the report with all faults."""
        faults = [{"position": one.position, "reason": one.reason} for one in self.faults()]
        report: dict[str, Any] = {**self.counts, "left_out": self.counts["left_out"]}
        report["faults"] = faults
        if self.notes:
            report["notes"] = [*self.notes]
        if self.vanished:
            report["vanished"] = self.vanished
        if self.samples:
            report["samples"] = self.samples
        return report


class SeenItems(ScratchTable):
    """Finds items whose id the file has twice. Use it as a context."""

    create = "CREATE TABLE seen(guid BLOB PRIMARY KEY, digest BLOB NOT NULL) WITHOUT ROWID, STRICT"

    def add(self, guid: str, line: str) -> bool | None:
        """Remember an item. Return None if its id is new, else whether the lines are equal."""
        key, digest = UUID(guid).bytes, blake2b(line.encode(), digest_size=8).digest()
        earlier = self._connection.execute(SELECT_SEEN, (key,)).get
        if earlier is None:
            self._connection.execute(INSERT_SEEN, (key, digest))
            return None
        return bool(earlier == digest)


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
    position: str
    prepared: Prepared


Outcome = Ready | Same | Fault


def find_source(name: str, source_input: SourceInput) -> Source:
    """Return a source by its name; `auto` stands for the one that recognizes the file.

    Raises BadExport: the source is unknown, or none or several recognize the file.
    """
    sources = all_sources()
    if name in sources:
        return sources[name]
    if name != AUTO:
        raise BadExport(f"unknown source {name!r}; use one of {', '.join(sources)}, {AUTO}")
    if source_input.path is None:
        raise BadExport(f"{AUTO} needs a file; use --from redis-ams with --url")
    matching = detect_sources(source_input.file)
    if len(matching) != 1:
        names = ", ".join(source.name for source in matching or sources.values())
        rule = "matches several sources" if matching else "has the structure of no source"
        raise RefusedFile(f"{source_input.file} {rule}; name one with --from: {names}")
    return matching[0]


def detect_sources(path: Path) -> list[Source]:
    """Return the sources that recognize a file. General ones are asked if no other does."""
    sources = all_sources().values()
    special = [one for one in sources if not one.is_general and one.detect(path)]
    return special or [one for one in sources if one.is_general and one.detect(path)]


def read_lines(source: Source, source_input: SourceInput, options: Options) -> Iterator[Outcome]:
    """Yield what becomes of each item, in the order of the file.

    Raises RefusedFile and OSError.
    """
    maker = LineMaker(source.name, owner=options.owner, now_ms=options.now_ms)
    items = source.read(source_input)
    if source_input.target:
        items = convert_items(items, source.name, source_input.target)
    count = 0
    with SeenItems() as seen:
        for item in items:
            count += 1
            yield item if isinstance(item, Fault) else _prepare(item, maker, seen, options)
    if source_input.path is not None:
        # It is loaded with the sources: its parser is heavy.
        find_page = load(f"{importers.__name__}.pages").find_page
        if note := find_page(source_input.path, count):
            source_input.note(note)


def _prepare(item: AnyItem, maker: LineMaker, seen: SeenItems, options: Options) -> Outcome:
    try:
        if options.since is not None and item.created_at is None:
            raise LeftOut("it has no time of creation, which --since needs")
        if options.since is not None and (item.created_at or 0) < options.since:
            raise LeftOut("it is older than --since")
        prepared = maker.prepare(item)
    except LeftOut as error:
        return Fault(item.position, str(error))
    is_same = seen.add(prepared.guid, prepared.line)
    if is_same is None:
        return Ready(item.position, prepared)
    if is_same:
        return Same(item.position)
    return Fault(item.position, "an earlier item of the file has the same id and differs")


def convert_items(items: Iterator[SourceItem], source: str, target: str) -> Iterator[SourceItem]:
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
