"""Turn items into lines of an export, one line per item, or into the reason to leave it out."""

from typing import NamedTuple
from uuid import NAMESPACE_URL, uuid5

import orjson
from msgspec.structs import replace
from pydantic import ValidationError

from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.errors import ValueTooLarge
from memrelay.memory.models.named_memories.entry_text import MAX_ENTRY_CHARACTERS
from memrelay.memory.models.named_memories.export import ExportedMemory
from memrelay.memory.models.named_memories.memories import KIND as ENTRY_KIND
from memrelay.memory.models.recipes import INSTANCE_KIND, NODE_KIND
from memrelay.memory.models.recipes.export import ExportedEdge
from memrelay.memory.models.recipes.graph.knowledge_graph import Entity, make_node
from memrelay.memory.models.recipes.graph.nodes import ENTITY_GRAPH, with_values
from memrelay.memory.models.recipes.table import make_node_scope
from memrelay.memory.records.data import as_text, checked
from memrelay.memory.records.ids import UID
from memrelay.memory.records.kinds import reserved_fault
from memrelay.memory.records.record import DEFAULT_KIND
from memrelay.memory.records.view import MAX_NAME_CHARACTERS, MOST_TAGS
from memrelay.memory.transfer.importers.fields import EMPTY_TEXT
from memrelay.memory.transfer.importers.items import (
    AnyItem,
    Edge,
    Fact,
    LeftOut,
    Node,
    Plain,
    Texted,
    Turn,
)
from memrelay.memory.transfer.lines import Ended, Exported, Line, make_row_line, to_json

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
        return Prepared(store, guid, line, setup, f"{about}: {item.text}")

    def _node(self, item: Node, guid: str) -> Prepared:
        _check_node(item)
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
        """Return the line of the graph."""
        if ENTITY_GRAPH not in self._setups:
            guid = str(uuid5(self._namespace, f"graph {ENTITY_GRAPH}"))
            state = Exported(guid, 1, "graph", INSTANCE_KIND, ACTOR, "[]", 0, 0, key=ENTITY_GRAPH)
            line = to_json(Line(record=replace(state, content=ENTITY_GRAPH))).decode()
            self._setups[ENTITY_GRAPH] = (guid, line)
        return self._setups[ENTITY_GRAPH][1]

    def _memory(self, name: str) -> tuple[str, str]:
        """Return (id, line) of the named memory."""
        if name not in self._setups:
            ident = f"mem_{UID}_{uuid5(self._namespace, f'memory {name}').hex}"
            memory = make_row_line(ExportedMemory(ident, name, 0, 0))
            self._setups[name] = (ident, to_json(memory).decode())
        return self._setups[name]


def _make_line(state: Exported, deleted_at: int | None) -> Line:
    if deleted_at is None:
        return Line(record=state)
    length = len(state.content or "")
    # A version has no position of its own: a record that is restored keeps its thread.
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


def _check_node(item: Node) -> None:
    if not item.name:
        raise LeftOut("the name of the entity is empty")
    for name in (item.name, item.kind):
        _check_label(name)


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
