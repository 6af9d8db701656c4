"""The schemas of the toolset `graph`, equal to those of the official memory server."""

from memrelay.web.mcp.tool import JsonObject

TEXT: JsonObject = {"type": "string"}


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
