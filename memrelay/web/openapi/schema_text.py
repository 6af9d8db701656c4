"""Readable types, fields and examples of JSON schemas, for the API reference."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
# Levels of nested fields that are shown, and levels of an example.
MAX_LEVELS = 3
# Example values of fields by their names. Other text fields have their name as the example. Objects
# without required fields show the first of these fields that they have.
EXAMPLES: Json = {
    "content": "The meeting is at 3pm",
    "text": "The meeting is at 3pm",
    "query": "meeting",
    "intent": "Find notes about tea",
    "name": "notes",
    "title": "Notes",
    "guids": ["GUID"],
    "guid": "GUID",
    "memory_id": "notes",
    "key": "tea",
    "value": "green",
    "user": "anna",
    "agent": "assistant",
    "store": "assistant",
    "kind": "note",
    "scope": "notes",
    "namespace": "default",
    "definition": {
        "id": "recent_notes",
        "label": "Recent notes",
        "retrieval": {"pipeline": [{"type": "log_search", "instance": "notes"}]},
    },
    "reason": "Corrected by hand",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an object. `fields` are those of the objects that it holds."""

    name: str
    type: str
    description: str
    is_required: bool
    fields: tuple["Field", ...] = ()


@dataclass(frozen=True, slots=True)
class SchemaReader:
    """Reads schemas. `definitions` are the schemas that references name."""

    definitions: Mapping[str, Json]

    def resolve(self, schema: Json) -> Json:
        """Return the schema that a reference names, or the first alternative that is not null."""
        if "$ref" in schema:
            return self.resolve(self.definitions[schema["$ref"].rpartition("/")[2]])
        if "properties" in schema:
            return schema
        kinds = _list_kinds(schema)
        return self.resolve(kinds[0]) if kinds else schema

    def list_fields(self, schema: Json, levels: int = MAX_LEVELS) -> tuple[Field, ...]:
        """Return the fields of an object, or of the objects that an array or a map holds."""
        found = self.resolve(schema)
        inner = found.get("items") or found.get("additionalProperties")
        if "properties" not in found:
            return self.list_fields(inner, levels) if isinstance(inner, dict) else ()
        required = found.get("required", ())
        return tuple(
            Field(
                name,
                self.describe_type(one),
                _find_description(one),
                name in required,
                self.list_fields(one, levels - 1) if levels > 1 else (),
            )
            for name, one in found["properties"].items()
        )

    def describe_type(self, schema: Json) -> str:
        """Return the type with its limits and default, for example `integer, 1 to 100`."""
        kinds = _list_kinds(schema)
        names = list(dict.fromkeys(self._describe_kind(kind) for kind in kinds or [schema]))
        can_be_null = len(kinds) < len(schema.get("anyOf", ()))
        text = " or ".join([*names, *(["null"] if can_be_null else [])])
        default = schema.get("default")
        return text if default in (None, "", [], {}) else f"{text}, default {_as_json(default)}"

    def _describe_kind(self, schema: Json) -> str:
        if "$ref" in schema:
            return self.describe_type(self.definitions[schema["$ref"].rpartition("/")[2]])
        values = schema.get("enum") or ([schema["const"]] if "const" in schema else None)
        if values:
            return " | ".join(_as_json(value) for value in values)
        kind = schema.get("type", "any JSON")
        if kind == "array":
            return f"array of {self.describe_type(schema.get('items', {}))}"
        name = kind if isinstance(kind, str) else " or ".join(kind)
        return name + _describe_limits(schema)

    def make_example(self, schema: Json, name: str = "") -> Any:
        """Return a short value of a schema: the required fields of an object, or its first."""
        if schema.get("examples"):
            return schema["examples"][0]
        found = self.resolve(schema)
        if found.get("examples"):
            return found["examples"][0]
        values = found.get("enum") or ([found["const"]] if "const" in found else None)
        if values:
            return values[0]
        if "properties" in found:
            return self._make_object(found)
        return self._make_plain(found, name)

    def _make_object(self, schema: Json) -> Json:
        fields = schema["properties"]
        names = list(schema.get("required", ()))
        if not names:
            names = [name for name in EXAMPLES if name in fields][:1] or list(fields)[:1]
        return {name: self.make_example(fields[name], name) for name in names}

    def _make_plain(self, schema: Json, name: str) -> Any:
        kind = schema.get("type", "string" if name in EXAMPLES else "object")
        kind = kind if isinstance(kind, str) else kind[0]
        if kind == "array":
            return EXAMPLES.get(name) or [
                self.make_example(schema.get("items", {}), name.removesuffix("s"))
            ]
        if kind in ("integer", "number"):
            return schema.get("default", max(schema.get("minimum", 1), 1))
        if kind == "object":
            example = EXAMPLES.get(name)
            return example if isinstance(example, dict) else {}
        return {"boolean": True, "null": None}.get(kind, EXAMPLES.get(name, name or "text"))


def _list_kinds(schema: Json) -> list[Json]:
    """Return the alternatives of a schema that are not null."""
    return [kind for kind in schema.get("anyOf", ()) if kind.get("type") != "null"]


def _find_description(schema: Json) -> str:
    return str(schema.get("description", ""))


def _describe_limits(schema: Json) -> str:
    """Return the limits of a value, for example `, 1 to 256 characters`, or ""."""
    ends: Sequence[tuple[str, str, str]] = (
        ("minLength", "maxLength", " characters"),
        ("minimum", "maximum", ""),
    )
    for low, high, unit in ends:
        if low in schema and high in schema:
            return f", {schema[low]:,} to {schema[high]:,}{unit}"
        if high in schema:
            return f", at most {schema[high]:,}{unit}"
        if low in schema:
            return f", at least {schema[low]:,}{unit}" if not unit else ", not empty"
    return ""


def _as_json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
