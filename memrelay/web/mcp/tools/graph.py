"""The toolset `graph`: the tools of the official MCP memory server, for unchanged clients.

Names, titles, descriptions, schemas and results are those of the package
@modelcontextprotocol/server-memory 2026.8.31. The data is the graph `mcp` of the pipeline.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from memrelay.web.mcp.tool import Hints, JsonObject, Target, Tool, ToolError

TEXT: JsonObject = {"type": "string"}
# 25,000 tokens of 3 bytes.
MAX_ANSWER_BYTES = 75_000
CREATES = Hints()
DELETES = Hints(destructive=True, idempotent=True)
READS = Hints(read_only=True, idempotent=True)


def described(description: str) -> JsonObject:
    """Return the schema of a text with a description."""
    return {**TEXT, "description": description}


def list_of(items: JsonObject, description: str = "") -> JsonObject:
    """Return the schema of a list."""
    return {"type": "array", "items": items} | ({"description": description} if description else {})


def accepted(**properties: JsonObject) -> JsonObject:
    """Return the schema of an object in an input. As in the official server, unknown keys are
    ignored.
    """
    required = {"required": [*properties]} if properties else {}
    return {"type": "object", "properties": properties} | required


def returned(**properties: JsonObject) -> JsonObject:
    """Return the schema of an object in an output."""
    return accepted(**properties) | {"additionalProperties": False}


@dataclass(frozen=True, slots=True)
class ItemList:
    """A list in the input or output of a tool. Without fields, its items are texts.

    `fields` are the schemas of an item's fields, and `names` their names in the operation if these
    differ. `operation_name` is the name of the list in the input of the operation.
    """

    name: str
    fields: Mapping[str, JsonObject] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    operation_name: str = "items"
    description: str = ""

    def make_input_schema(self) -> JsonObject:
        """Return the schema of an input with this list."""
        item = accepted(**self.fields) if self.fields else TEXT
        return accepted(**{self.name: list_of(item, self.description)})

    def make_output_schema(self) -> JsonObject:
        """Return the schema of an output with this list."""
        return returned(**{self.name: list_of(returned(**self.fields))})

    def to_input(self, arguments: JsonObject) -> JsonObject:
        """Return the input of the operation. Unknown keys of an item are left out."""
        items = arguments[self.name]
        if self.fields:
            items = [
                {self.names.get(name, name): one[name] for name in self.fields} for one in items
            ]
        return {self.operation_name: items}

    def to_output(self, items: list[JsonObject]) -> JsonObject:
        """Return the value of the tool for items that the operation returned."""
        return {
            self.name: [
                {name: one[self.names.get(name, name)] for name in self.fields} for one in items
            ]
        }


ENTITIES = ItemList(
    "entities",
    {
        "name": described("The name of the entity"),
        "entityType": described("The type of the entity"),
        "observations": list_of(
            TEXT, "An array of observation contents associated with the entity"
        ),
    },
    {"entityType": "entity_type"},
    "entities",
)
RELATIONS = ItemList(
    "relations",
    {
        "from": described("The name of the entity where the relation starts"),
        "to": described("The name of the entity where the relation ends"),
        "relationType": described("The type of the relation"),
    },
    {"from": "from_entity", "to": "to_entity", "relationType": "relation_type"},
    "relations",
)
ADDITIONS = ItemList(
    "observations",
    {
        "entityName": described("The name of the entity to add the observations to"),
        "contents": list_of(TEXT, "An array of observation contents to add"),
    },
    {"entityName": "entity", "contents": "observations"},
)
ADDED = ItemList(
    "results",
    {"entityName": TEXT, "addedObservations": list_of(TEXT)},
    {"entityName": "entity", "addedObservations": "observations"},
)
DELETIONS = ItemList(
    "deletions",
    {
        "entityName": described("The name of the entity containing the observations"),
        "observations": list_of(TEXT, "An array of observations to delete"),
    },
    {"entityName": "entity"},
)
ENTITY_NAMES = ItemList(
    "entityNames", operation_name="names", description="An array of entity names to delete"
)
GRAPH = returned(
    entities=list_of(returned(**ENTITIES.fields)), relations=list_of(returned(**RELATIONS.fields))
)
DONE = returned(success={"type": "boolean"}, message=TEXT)


async def read_whole_graph(target: Target) -> JsonObject:
    """Return all entities and relations, also if they are too long for the answer of a tool."""
    return _to_graph(await target.call("knowledge_graph.read", {}))


def format_json(value: Any) -> str:
    """Return JSON with 2 spaces, as the official server does."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _to_graph(output: JsonObject) -> JsonObject:
    return ENTITIES.to_output(output["entities"]) | RELATIONS.to_output(output["relations"])


def _refuse_long(graph: JsonObject) -> JsonObject:
    """Return a graph that is short enough for a model. Raises ToolError."""
    size = len(orjson.dumps(graph))
    if size > MAX_ANSWER_BYTES:
        raise ToolError(
            f"the answer would have {size:,} bytes, and {MAX_ANSWER_BYTES:,} is the limit: "
            f"{len(graph['entities']):,} entities, {len(graph['relations']):,} relations; call "
            "search_nodes with a more specific query, or open_nodes with fewer names"
        )
    return graph


def _make_title(name: str) -> str:
    return name.replace("_", " ").title()


def _create(name: str, description: str, new: ItemList, created: ItemList) -> Tool:
    """Return a tool that creates things and returns the created ones."""
    operation = f"knowledge_graph.{name}"

    async def run(target: Target, arguments: JsonObject) -> JsonObject:
        output = await target.call(operation, new.to_input(arguments))
        return created.to_output(output["items"])

    return Tool(
        name,
        _make_title(name),
        description,
        new.make_input_schema(),
        created.make_output_schema(),
        (operation,),
        CREATES,
        run,
        lambda value: format_json(value[created.name]),
    )


def _delete(name: str, description: str, deleted: ItemList) -> Tool:
    """Return a tool that deletes things."""
    operation = f"knowledge_graph.{name}"
    message = f"{name.removeprefix('delete_').title()} deleted successfully"

    async def run(target: Target, arguments: JsonObject) -> JsonObject:
        await target.call(operation, deleted.to_input(arguments))
        return {"success": True, "message": message}

    return Tool(
        name,
        _make_title(name),
        description,
        deleted.make_input_schema(),
        DONE,
        (operation,),
        DELETES,
        run,
        lambda value: str(value["message"]),
    )


def _read(name: str, description: str, operation: str, **arguments: JsonObject) -> Tool:
    """Return a tool that returns a part of the graph. `arguments` are those of the operation."""

    async def run(target: Target, given: JsonObject) -> JsonObject:
        output = await target.call(operation, {one: given[one] for one in arguments})
        return _refuse_long(_to_graph(output))

    return Tool(
        name,
        _make_title(name),
        description,
        accepted(**arguments),
        GRAPH,
        (operation,),
        READS,
        run,
        format_json,
    )


GRAPH_TOOLS: tuple[Tool, ...] = (
    _create(
        "create_entities",
        "Create multiple new entities in the knowledge graph",
        ENTITIES,
        ENTITIES,
    ),
    _create(
        "create_relations",
        "Create multiple new relations between entities in the knowledge graph. "
        "Relations should be in active voice",
        RELATIONS,
        RELATIONS,
    ),
    _create(
        "add_observations",
        "Add new observations to existing entities in the knowledge graph",
        ADDITIONS,
        ADDED,
    ),
    _delete(
        "delete_entities",
        "Delete multiple entities and their associated relations from the knowledge graph",
        ENTITY_NAMES,
    ),
    _delete(
        "delete_observations",
        "Delete specific observations from entities in the knowledge graph",
        DELETIONS,
    ),
    _delete(
        "delete_relations",
        "Delete multiple relations from the knowledge graph",
        replace(RELATIONS, description="An array of relations to delete"),
    ),
    _read("read_graph", "Read the entire knowledge graph", "knowledge_graph.read"),
    _read(
        "search_nodes",
        "Search for nodes in the knowledge graph based on a query",
        "knowledge_graph.search",
        query=described(
            "The search query to match against entity names, types, and observation content"
        ),
    ),
    _read(
        "open_nodes",
        "Open specific nodes in the knowledge graph by their names",
        "knowledge_graph.open",
        names=list_of(TEXT, "An array of entity names to retrieve"),
    ),
)
