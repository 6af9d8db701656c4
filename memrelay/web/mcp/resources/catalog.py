"""The resources of pipelines: templates, pages of the list, and what a resource contains.

Every read calls an operation with the client's key. A resource that the key may not read gets the
answer of an unknown one.
"""

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import mcp_types as types
from mcp.shared.exceptions import MCPError

from memrelay.web.mcp.resources.uris import GRAPH_URI, ResourceKind, ResourceUri, name_of, parse_uri
from memrelay.web.mcp.tool import JsonObject, Target, ToolError
from memrelay.web.mcp.tools.answer_size import MAX_BYTES, cut_to_fit
from memrelay.web.mcp.tools.graph import format_json, read_whole_graph

JSON = "application/json"
# Resources on a page of the list.
PAGE_SIZE = 50
# Operation calls per page of the list: most pipelines have few resources, and some have none.
MAX_CALLS = 20
# Characters of the title of a resource.
MAX_TITLE = 80
# The first states of a history, or entries of a memory.
MAX_ITEMS = 50
CURSOR = re.compile(r"(records|memories)\.([A-Za-z0-9_-]{0,64})\.([0-9]{0,19})")


@dataclass(frozen=True, slots=True)
class Template:
    """A resource template, and the operation that reads such a resource."""

    kind: ResourceKind
    path: str
    title: str
    description: str
    operation: str


TEMPLATES = (
    Template(
        "record", "records/{guid}", "Record", "A record with all of its fields.", "records.get"
    ),
    Template(
        "history",
        "records/{guid}/history",
        "History of a record",
        "The states of a record, latest first, with who changed them, when and why.",
        "records.history",
    ),
    Template(
        "memory",
        "memories/{mem}",
        "Named memory",
        "A named memory and its newest entries.",
        "entries.list",
    ),
    Template("recipe", "recipes/{id}", "Recipe", "A recipe that builds a context.", "recipes.get"),
)
BY_KIND = {template.kind: template for template in TEMPLATES}
GRAPH_READ = "knowledge_graph.read"


class ListCursor(NamedTuple):
    """The place of a page: a part of the list, a pipeline, and the cursor of its operation."""

    part: str
    uid: str
    place: str


def list_templates(targets: Sequence[Target]) -> types.ListResourceTemplatesResult:
    """Return the templates of resources that the client may read."""
    found = [
        types.ResourceTemplate(
            name=template.kind,
            title=template.title,
            uri_template=f"memory://{_authority(targets)}/{template.path}",
            description=template.description,
            mime_type=JSON,
        )
        for template in TEMPLATES
        if any(target.may_call(template.operation) for target in targets)
    ]
    return types.ListResourceTemplatesResult(resource_templates=found)


def _authority(targets: Sequence[Target]) -> str:
    return name_of("") if [target.uid for target in targets] == [""] else "{uid}"


async def list_resources(
    targets: Sequence[Target], cursor: str | None, *, has_graph: bool = False
) -> types.ListResourcesResult:
    """Return a page: records that belong to every context, then named memories, by pipeline.

    With `has_graph`, the only resource is the knowledge graph.

    Raises MCPError: the cursor is invalid. Raises ToolError.
    """
    if has_graph:
        return types.ListResourcesResult(resources=_graph_resources(targets))
    found: list[types.Resource] = []
    calls = 0
    for target, part, place in _parts(targets, _parse_cursor(cursor)):
        next_place: str | None = place
        while next_place is not None:
            if calls == MAX_CALLS or len(found) >= PAGE_SIZE:
                here = f"{part.name}.{target.uid}.{next_place}"
                return types.ListResourcesResult(resources=found, next_cursor=here)
            given = part.given | {"limit": PAGE_SIZE - len(found)}
            page = await target.call(part.operation, given | _with_cursor(next_place))
            calls += 1
            found += [part.describe(target.uid, item) for item in page["items"]]
            next_place = page["next_cursor"]
    return types.ListResourcesResult(resources=found)


def _graph_resources(targets: Sequence[Target]) -> list[types.Resource]:
    graph = types.Resource(
        uri=GRAPH_URI,
        name="knowledge-graph",
        title="Knowledge graph",
        description="All entities and relations.",
        mime_type=JSON,
    )
    return [graph] if any(target.may_call(GRAPH_READ) for target in targets) else []


def _with_cursor(place: str) -> JsonObject:
    return {"cursor": place} if place else {}


def _parse_cursor(cursor: str | None) -> ListCursor | None:
    if cursor is None:
        return None
    found = CURSOR.fullmatch(cursor)
    if found is None:
        raise MCPError(
            types.INVALID_PARAMS, "`cursor` is invalid; omit it to start at the first page"
        )
    return ListCursor(*found.groups())


class _Part(NamedTuple):
    """A part of the list that one operation returns."""

    name: str
    operation: str
    given: JsonObject
    describe: Callable[[str, JsonObject], types.Resource]


def _describe_record(uid: str, record: JsonObject) -> types.Resource:
    return types.Resource(
        uri=str(ResourceUri("record", name_of(uid), record["guid"])),
        name=record["key"] or record["guid"],
        title=_title_of(record["content"]),
        description="A record that belongs to every context.",
        mime_type=JSON,
        annotations=types.Annotations(last_modified=record["updated_at"]),
    )


def _describe_memory(uid: str, memory: JsonObject) -> types.Resource:
    return types.Resource(
        uri=str(ResourceUri("memory", name_of(uid), memory["id"])),
        name=memory["name"],
        title=_title_of(memory["name"]),
        description=_cut(memory["description"] or "A named memory.", 4 * MAX_TITLE),
        mime_type=JSON,
        annotations=types.Annotations(last_modified=memory["updated_at"]),
    )


PARTS = (
    _Part("records", "records.list", {"filter": {"in_context": {"eq": True}}}, _describe_record),
    _Part("memories", "memories.list", {}, _describe_memory),
)


def _parts(
    targets: Sequence[Target], cursor: ListCursor | None
) -> Iterator[tuple[Target, _Part, str]]:
    """Yield what is left to list: a pipeline, a part, and the cursor in the part."""
    ordered = sorted(targets, key=lambda one: one.uid)
    names = [part.name for part in PARTS]
    first = ("", 0) if cursor is None else (cursor.uid, names.index(cursor.part))
    for target, (index, part) in product(ordered, enumerate(PARTS)):
        here = (target.uid, index)
        if here >= first and target.may_call(part.operation):
            yield target, part, cursor.place if cursor and here == first else ""


def _title_of(text: str) -> str:
    return _cut(next(iter(text.split("\n", 1)), ""), MAX_TITLE)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


async def read_resource(
    targets: Sequence[Target], uri: str, *, has_graph: bool = False
) -> types.ReadResourceResult:
    """Return what a resource contains, as JSON of at most MAX_BYTES.

    Raises MCPError: the client sees no such resource. Raises ToolError.
    """
    parsed = parse_uri(uri)
    target = None if parsed is None else find_target(targets, parsed, has_graph=has_graph)
    if parsed is None or target is None:
        raise unknown_resource(uri)
    value = await _READERS[parsed.kind](target, parsed.id)
    contents = types.TextResourceContents(uri=uri, mime_type=JSON, text=format_json(value))
    return types.ReadResourceResult(contents=[contents])


def find_target(targets: Sequence[Target], uri: ResourceUri, *, has_graph: bool) -> Target | None:
    """Return the pipeline of a resource; None if the client may not read it."""
    if (uri.kind == "graph") != has_graph:
        return None
    operation = GRAPH_READ if uri.kind == "graph" else BY_KIND[uri.kind].operation
    for target in targets:
        if uri.kind == "graph" or name_of(target.uid) == uri.uid:
            return target if target.may_call(operation) else None
    return None


def unknown_resource(uri: str) -> MCPError:
    """Return the error for a resource that does not exist, or that the client may not read."""
    return MCPError(types.INVALID_PARAMS, "Resource not found", {"uri": uri})


async def _read_record(target: Target, guid: str) -> JsonObject:
    record: JsonObject = await target.call("records.get", {"guid": guid})
    return cut_text(record, "content", "memory_read returns the rest: give it `guid` and `offset`")


async def _read_history(target: Target, guid: str) -> JsonObject:
    async def read(limit: int) -> JsonObject:
        page: JsonObject = await target.call("records.history", {"guid": guid, "limit": limit})
        return page

    return await _fit(read, "memory_history returns the rest: give it `cursor`")


async def _read_memory(target: Target, ident: str) -> JsonObject:
    memory = await target.call("memories.get", {"id": ident})

    async def read(limit: int) -> JsonObject:
        given = {"memory_id": ident, "order": "desc", "limit": limit}
        page = await target.call("entries.list", given)
        return {"memory": memory, "items": page["items"], "total": page["total"]}

    return await _fit(read, "memory_recall finds entries by a question")


async def _read_recipe(target: Target, ident: str) -> JsonObject:
    recipe: JsonObject = await target.call("recipes.get", {"id": ident})
    return _refuse_long(recipe)


async def _read_graph(target: Target, _: str) -> JsonObject:
    return _refuse_long(await read_whole_graph(target))


_READERS: dict[ResourceKind, Callable[[Target, str], Awaitable[JsonObject]]] = {
    "record": _read_record,
    "history": _read_history,
    "memory": _read_memory,
    "recipe": _read_recipe,
    "graph": _read_graph,
}


async def _fit(read: Callable[[int], Awaitable[JsonObject]], hint: str) -> JsonObject:
    """Return a page with as many items as fit into an answer; `read` takes the limit."""
    limit = MAX_ITEMS
    page = await read(limit)
    while (size := _size_of(page)) > MAX_BYTES and limit > 1:
        limit = max(min(limit // 2, limit * MAX_BYTES // size), 1)
        page = await read(limit)
    if len(page["items"]) < page["total"]:
        page = page | {"continue": hint}
    return _refuse_long(page)


def cut_text(value: JsonObject, field: str, hint: str) -> JsonObject:
    """Return the value with a text field that fits into an answer, its length and the `hint`."""
    if _size_of(value) <= MAX_BYTES:
        return value
    text: str = value[field]
    cut = value | {f"{field}_characters": len(text), "continue": hint}
    shown = cut_to_fit(text, lambda start: _size_of(cut | {field: start}) <= MAX_BYTES)
    return cut | {field: shown}


def _refuse_long(value: JsonObject) -> JsonObject:
    """Return the value. Raises ToolError: it does not fit into an answer."""
    if (size := _size_of(value)) > MAX_BYTES:
        raise ToolError(
            f"the resource has {size} bytes, and an answer at most {MAX_BYTES}; "
            "read parts of it with the tools"
        )
    return value


def _size_of(value: JsonObject) -> int:
    return len(format_json(value).encode())
