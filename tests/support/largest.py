"""Makes the largest inputs that the JSON Schema of an operation accepts, one for each field."""

from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import orjson

from memrelay.memory.operations import Operation

Json = dict[str, Any]
# Bytes of one value. An input has at most 1 MiB, like a message (bus.max_message_bytes).
ROOM = (1 << 20) - 40_000
# As many pieces and listed values as a filter may have (docs/filters.md).
FILTER: Json = {"or": [{"data.k": {"in": [*range(1000)]}} for _ in range(100)]}
NESTED_LEVELS = 60


def largest_inputs(operation: Operation, base: Json) -> Iterator[Json]:
    """Yield the base, then inputs in which one field is as large as it may be.

    Each field has several forms: many small parts, few large ones, nested ones.
    """
    yield base
    schema = operation.adapter.json_schema()
    maker = _Maker(schema.get("$defs", {}))
    for name, field in schema.get("properties", {}).items():
        values = [FILTER] if name == "filter" else maker.largest(field, ROOM)
        yield from (base | {name: value} for value in values)


class _Maker:
    def __init__(self, definitions: Mapping[str, Json]) -> None:
        self._definitions = definitions
        self._numbers = count()

    def largest(self, schema: Json, room: int) -> list[Any]:
        """Return the largest values of a schema, within `room` bytes of JSON each."""
        schema = self._resolve(schema)
        if "anyOf" in schema:
            return [value for one in schema["anyOf"] for value in self.largest(one, room)]
        if "enum" in schema:
            return list(schema["enum"])
        match schema.get("type"):
            case "string":
                return self._texts(schema, room)
            case "integer" | "number":
                return [schema.get("maximum", 1 << 60)]
            case "boolean":
                return [True]
            case "array":
                return self._lists(schema, room)
            case "object" if "properties" in schema:
                return self._objects(schema, room)
            case "object":
                return self._any_objects(room)
            case None:
                return [*self._any_objects(room), *self._texts({}, room)]
        return []

    def small(self, schema: Json) -> Any:
        """Return a value with no optional part. Texts differ from each other."""
        schema = self._resolve(schema)
        if "anyOf" in schema:
            return self.small(schema["anyOf"][0])
        if "enum" in schema:
            return schema["enum"][0]
        match schema.get("type"):
            case "integer" | "number":
                return max(schema.get("minimum", 0), 0)
            case "boolean":
                return True
            case "array":
                least = schema.get("minItems", 0)
                return [self.small(schema.get("items", {})) for _ in range(least)]
            case "object":
                needed = schema.get("required", ())
                return {name: self.small(schema["properties"][name]) for name in needed}
        return f"t{next(self._numbers)}"

    def _resolve(self, schema: Json) -> Json:
        reference = schema.get("$ref")
        return self._definitions[reference.rpartition("/")[2]] if reference else schema

    def _texts(self, schema: Json, room: int) -> list[str]:
        """Return words that differ, words of signs, and one word."""
        size = min(schema.get("maxLength", room), room)
        words = " ".join(f"w{number}" for number in range(size // 2))[:size].strip()
        return [words, ('(.[ " -x ' * size)[:size].strip(), "a" * size]

    def _lists(self, schema: Json, room: int) -> list[list[Any]]:
        """Return many small elements, and as many large ones as fit."""
        items, most = schema.get("items", {}), schema.get("maxItems", room)
        lists = [list(_fitting((self.small(items) for _ in range(most)), room))]
        for share in (room // 1000, room // 30):
            for form in self.largest(items, share):
                elements = (self._distinct(items, form) for _ in range(min(most, 1000)))
                lists.append(list(_fitting(elements, room)))
        return lists

    def _distinct(self, schema: Json, form: Any) -> Any:
        """Return a large element whose needed texts differ from those of the others."""
        if isinstance(form, dict):
            small = self.small(schema)
            kept = small if isinstance(small, dict) else {}
            return form | {name: one for name, one in kept.items() if len(str(form[name])) < 20}
        if isinstance(form, str):
            number = f"t{next(self._numbers)}"
            return number + form[len(number) :]
        return form

    def _objects(self, schema: Json, room: int) -> list[Json]:
        least = self.small(schema)
        return [
            least | {name: value}
            for name, field in schema["properties"].items()
            for value in self.largest(field, room)
        ]

    def _any_objects(self, room: int) -> list[Json]:
        """Return an object with many keys, one with a long text, and nested ones."""
        nested: Any = "end"
        for level in range(NESTED_LEVELS):
            nested = {f"k{level}": nested}
        return [
            {f"k{number}": number for number in range(room // 16)},
            {"k": self._texts({}, room - 10)[0]},
            {"k": [{"k": number} for number in range(room // 16)]},
            nested,
        ]


def _fitting(values: Iterator[Any], room: int) -> Iterator[Any]:
    for value in values:
        room -= len(orjson.dumps(value)) + 1
        if room < 0:
            return
        yield value
