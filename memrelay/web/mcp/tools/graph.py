"""The toolset `graph`: the tools of the official MCP memory server, for unchanged clients.

Names, titles, descriptions, schemas and results are those of the package
@modelcontextprotocol/server-memory 2026.8.31. The data is the graph `mcp` of the pipeline.
"""

from typing import Any

import orjson

from memrelay.web.mcp.tool import Hints, JsonObject, Target, Tool, ToolError
from memrelay.web.mcp.tools import graph as schemas

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


ENTITY: JsonObject = {
    "name": described("The name of the entity"),
    "entityType": described("The type of the entity"),
    "observations": list_of(TEXT, "An array of observation contents associated with the entity"),
}
RELATION: JsonObject = {
    "from": described("The name of the entity where the relation starts"),
    "to": described("The name of the entity where the relation ends"),
    "relationType": described("The type of the relation"),
}
ADDITION: JsonObject = {
    "entityName": described("The name of the entity to add the observations to"),
    "contents": list_of(TEXT, "An array of observation contents to add"),
}
DELETION: JsonObject = {
    "entityName": described("The name of the entity containing the observations"),
    "observations": list_of(TEXT, "An array of observations to delete"),
}
GRAPH = returned(entities=list_of(returned(**ENTITY)), relations=list_of(returned(**RELATION)))
ADDED = returned(results=list_of(returned(entityName=TEXT, addedObservations=list_of(TEXT))))
DONE = returned(success={"type": "boolean"}, message=TEXT)


async def create_entities(target: Target, given: JsonObject) -> JsonObject:
    """Create the entities with new names and return them."""
    entities = [
        {
            "name": one["name"],
            "entity_type": one["entityType"],
            "observations": one["observations"],
        }
        for one in given["entities"]
    ]
    created = await target.call("knowledge_graph.create_entities", {"entities": entities})
    return {"entities": [_entity(one) for one in created["items"]]}


async def create_relations(target: Target, given: JsonObject) -> JsonObject:
    """Create the new relations and return them."""
    wanted = {"relations": _given_relations(given)}
    created = await target.call("knowledge_graph.create_relations", wanted)
    return {"relations": [_relation(one) for one in created["items"]]}


async def add_observations(target: Target, given: JsonObject) -> JsonObject:
    """Add observations and return the new ones."""
    items = [
        {"entity": one["entityName"], "observations": one["contents"]}
        for one in given["observations"]
    ]
    added = await target.call("knowledge_graph.add_observations", {"items": items})
    return {
        "results": [
            {"entityName": one["entity"], "addedObservations": [*one["observations"]]}
            for one in added["items"]
        ]
    }


async def delete_entities(target: Target, given: JsonObject) -> JsonObject:
    """Delete entities with their relations."""
    await target.call("knowledge_graph.delete_entities", {"names": given["entityNames"]})
    return _deleted("Entities")


async def delete_observations(target: Target, given: JsonObject) -> JsonObject:
    """Delete observations of entities."""
    items = [
        {"entity": one["entityName"], "observations": one["observations"]}
        for one in given["deletions"]
    ]
    await target.call("knowledge_graph.delete_observations", {"items": items})
    return _deleted("Observations")


async def delete_relations(target: Target, given: JsonObject) -> JsonObject:
    """Delete relations."""
    wanted = {"relations": _given_relations(given)}
    await target.call("knowledge_graph.delete_relations", wanted)
    return _deleted("Relations")


async def read_graph(target: Target, given: JsonObject) -> JsonObject:
    """Return all entities and relations."""
    return _fitting(await read_whole_graph(target))


async def search_nodes(target: Target, given: JsonObject) -> JsonObject:
    """Return the entities with a text, and their relations."""
    found = await target.call("knowledge_graph.search", {"query": given["query"]})
    return _fitting(_graph(found))


async def open_nodes(target: Target, given: JsonObject) -> JsonObject:
    """Return the named entities, and their relations."""
    found = await target.call("knowledge_graph.open", {"names": given["names"]})
    return _fitting(_graph(found))


async def read_whole_graph(target: Target) -> JsonObject:
    """Return all entities and relations, also if they are too long for the answer of a tool."""
    return _graph(await target.call("knowledge_graph.read", {}))


def format_json(value: Any) -> str:
    """Return JSON with 2 spaces, as the official server does."""
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()


def _given_relations(given: JsonObject) -> list[JsonObject]:
    return [
        {
            "from_entity": one["from"],
            "to_entity": one["to"],
            "relation_type": one["relationType"],
        }
        for one in given["relations"]
    ]


def _entity(entity: JsonObject) -> JsonObject:
    return {
        "name": entity["name"],
        "entityType": entity["entity_type"],
        "observations": [*entity["observations"]],
    }


def _relation(relation: JsonObject) -> JsonObject:
    return {
        "from": relation["from_entity"],
        "to": relation["to_entity"],
        "relationType": relation["relation_type"],
    }


def _graph(found: JsonObject) -> JsonObject:
    return {
        "entities": [*map(_entity, found["entities"])],
        "relations": [*map(_relation, found["relations"])],
    }


def _deleted(things: str) -> JsonObject:
    return {"success": True, "message": f"{things} deleted successfully"}


def _fitting(graph: JsonObject) -> JsonObject:
    """Return a graph that is short enough for a model. Raises ToolError."""
    size = len(orjson.dumps(graph))
    if size > MAX_ANSWER_BYTES:
        raise ToolError(
            f"the answer would have {size:,} bytes, and {MAX_ANSWER_BYTES:,} is the limit: "
            f"{len(graph['entities']):,} entities, {len(graph['relations']):,} relations; call "
            "search_nodes with a more specific query, or open_nodes with fewer names"
        )
    return graph


def _list_text(name: str) -> Any:
    return lambda value: format_json(value[name])


def _message(value: JsonObject) -> str:
    return str(value["message"])


GRAPH_TOOLS: tuple[Tool, ...] = (
    Tool(
        "create_entities",
        "Create Entities",
        "Create multiple new entities in the knowledge graph",
        schemas.accepted(entities=schemas.list_of(schemas.accepted(**schemas.ENTITY))),
        schemas.returned(entities=schemas.list_of(schemas.returned(**schemas.ENTITY))),
        ("knowledge_graph.create_entities",),
        CREATES,
        create_entities,
        _list_text("entities"),
    ),
    Tool(
        "create_relations",
        "Create Relations",
        "Create multiple new relations between entities in the knowledge graph. "
        "Relations should be in active voice",
        schemas.accepted(relations=schemas.list_of(schemas.accepted(**schemas.RELATION))),
        schemas.returned(relations=schemas.list_of(schemas.returned(**schemas.RELATION))),
        ("knowledge_graph.create_relations",),
        CREATES,
        create_relations,
        _list_text("relations"),
    ),
    Tool(
        "add_observations",
        "Add Observations",
        "Add new observations to existing entities in the knowledge graph",
        schemas.accepted(observations=schemas.list_of(schemas.accepted(**schemas.ADDITION))),
        schemas.ADDED,
        ("knowledge_graph.add_observations",),
        CREATES,
        add_observations,
        _list_text("results"),
    ),
    Tool(
        "delete_entities",
        "Delete Entities",
        "Delete multiple entities and their associated relations from the knowledge graph",
        schemas.accepted(
            entityNames=schemas.list_of(schemas.TEXT, "An array of entity names to delete")
        ),
        schemas.DONE,
        ("knowledge_graph.delete_entities",),
        DELETES,
        delete_entities,
        _message,
    ),
    Tool(
        "delete_observations",
        "Delete Observations",
        "Delete specific observations from entities in the knowledge graph",
        schemas.accepted(deletions=schemas.list_of(schemas.accepted(**schemas.DELETION))),
        schemas.DONE,
        ("knowledge_graph.delete_observations",),
        DELETES,
        delete_observations,
        _message,
    ),
    Tool(
        "delete_relations",
        "Delete Relations",
        "Delete multiple relations from the knowledge graph",
        schemas.accepted(
            relations=schemas.list_of(
                schemas.accepted(**schemas.RELATION), "An array of relations to delete"
            )
        ),
        schemas.DONE,
        ("knowledge_graph.delete_relations",),
        DELETES,
        delete_relations,
        _message,
    ),
    Tool(
        "read_graph",
        "Read Graph",
        "Read the entire knowledge graph",
        schemas.accepted(),
        schemas.GRAPH,
        ("knowledge_graph.read",),
        READS,
        read_graph,
        format_json,
    ),
    Tool(
        "search_nodes",
        "Search Nodes",
        "Search for nodes in the knowledge graph based on a query",
        schemas.accepted(
            query=schemas.described(
                "The search query to match against entity names, types, and observation content"
            )
        ),
        schemas.GRAPH,
        ("knowledge_graph.search",),
        READS,
        search_nodes,
        format_json,
    ),
    Tool(
        "open_nodes",
        "Open Nodes",
        "Open specific nodes in the knowledge graph by their names",
        schemas.accepted(
            names=schemas.list_of(schemas.TEXT, "An array of entity names to retrieve")
        ),
        schemas.GRAPH,
        ("knowledge_graph.open",),
        READS,
        open_nodes,
        format_json,
    ),
)
