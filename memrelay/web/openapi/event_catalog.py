"""The catalog of the events of endpoints: docs/events.md and docs/events.schema.json.

`python -m memrelay.web.openapi.event_catalog` writes both. Nothing loads it while Memrelay runs.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from memrelay.memory.endpoint_rules import TEST_TYPE
from memrelay.memory.engine.models import kind_events, load
from memrelay.memory.field_descriptions import read_descriptions
from memrelay.memory.models.endpoints.events import RECORD_TYPES, is_deletion, list_event_types
from memrelay.memory.records.view import RecordView

Json = dict[str, Any]
DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE, SCHEMA = DOCS / "events.md", DOCS / "events.schema.json"
MARK = "<!-- from here on: python -m memrelay.web.openapi.event_catalog -->"
DIALECT = "https://json-schema.org/draft/2020-12/schema"
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
TEXTS = {"type": "array", "items": TEXT}
TRUE = {"const": True}
AT = "2026-11-28T15:41:29.313Z"
GUID = "01a200a0-9980-7000-8018-9f7019b48c30"
STORE = "instances/UID/memories"
RECIPES = {"store": "instances/UID/recipes"}
# The definition of what is left of a record.
IDS = "Ids"
IDS_FIELDS = {
    "guid": TEXT,
    "store": TEXT,
    "id": TEXT | {"description": "The guid, of a record that was erased meanwhile."},
    "deleted": TRUE | {"description": "The record was deleted meanwhile."},
    "erased": TRUE | {"description": "The record was erased meanwhile."},
    "truncated": TRUE | {"description": "The data is above 256 KiB and left out."},
}
# The fields of `data` of events that are not about one record.
IN_STORE = {"id": TEXT, "store": TEXT}
FIELDS: dict[str, Json] = {
    **dict.fromkeys(("memory.created", "memory.updated", "memory.deleted"), IN_STORE),
    **dict.fromkeys(("kv.set", "kv.deleted"), IN_STORE | {"namespace": TEXT, "key": TEXT}),
    "kv.cleared": IN_STORE | {"namespace": TEXT},
    **dict.fromkeys(("event.appended", "events.appended"), IN_STORE | {"ids": TEXTS}),
    **dict.fromkeys(("node.added", "nodes.added"), IN_STORE | {"ids": TEXTS}),
    **dict.fromkeys(("edge.added", "edges.added"), IN_STORE | {"ids": TEXTS}),
    "edge.deleted": IN_STORE | {"kind": TEXT, "from_node_id": TEXT, "to_node_id": TEXT},
    "view.created": IN_STORE,
    "view.deleted": IN_STORE | {"instance_id": TEXT, "template_id": TEXT},
    "policy.verdict": IN_STORE | {"policy": TEXT, "action": TEXT},
    "dead_letter.added": {
        **{"id": TEXT, "pipeline": TEXT, "swarm": TEXT, "agent": TEXT},
        "attempts": NUMBER,
    },
    "pipeline.deployed": {
        **{"id": TEXT, "pipeline": TEXT, "name": TEXT, "version": NUMBER, "bundle": TEXT}
    },
    "endpoint.disabled": {"id": TEXT, "url": TEXT, "reason": TEXT},
    TEST_TYPE: {"message": TEXT},
}
ITEM = {
    "store": "instances/UID/stores",
    "item": {"store": "team", "namespace": "", "key": "plan", "owner": "ada"},
}
FACT = {"scope": "global", "confidence": 1.0, "times_confirmed": 1}
TEXT_ADDED = "Ada likes tea\nShe takes no milk"
# When each event is sent, and the values of its example that matter.
EVENTS: dict[str, tuple[str, Json]] = {
    "record.created": ("A record is new.", {"content": "The meeting is at 3pm"}),
    "record.updated": ("Its text or a field changed.", {"content": "The meeting is at 4pm"}),
    "record.appended": ("A text was appended.", {"content": "one\ntwo"}),
    "record.restored": (
        "A deleted record, or an earlier state, was restored.",
        {"content": "one"},
    ),
    "record.deleted": ("It was deleted.", {}),
    "record.expired": (
        "The worker deleted it after its expiry. This is the event of all kinds of records.",
        {},
    ),
    "record.erased": ("Records were erased. The event does not name them.", {"guid": ""}),
    "memory.created": ("A named memory is new.", {"id": "mem_3a"}),
    "memory.updated": ("Its name, description or tags changed.", {"id": "mem_3a"}),
    "memory.deleted": ("It was deleted. Its entries have events too.", {"id": "mem_3a"}),
    "entry.created": ("A named memory has a new entry.", {"content": "Ada likes tea"}),
    "entry.updated": (
        "An entry was changed without deduplication.",
        {"content": "Ada likes coffee"},
    ),
    "entry.merged": (
        "A text was added to an entry, or replaced a part of it.",
        {"content": TEXT_ADDED},
    ),
    "entry.skipped": (
        "A text was a duplicate and confirmed the entry.",
        {"content": "Ada likes tea", "confirmations": 2},
    ),
    "entry.restored": (
        "A deleted entry, or an earlier state, was restored.",
        {"content": "Ada likes tea"},
    ),
    "entry.deleted": ("It was deleted, also together with its memory.", {}),
    "fact.set": ("A fact is new, or was set to the value that it has.", FACT),
    "fact.contradicted": (
        "A fact was set to another value.",
        FACT | {"value": "coffee", "times_contradicted": 1},
    ),
    "fact.deleted": ("It was deleted.", {}),
    "episode.completed": ("An episode of an agent ended.", {"success": True, "ended_at": AT}),
    "item.put": ("An item of a shared store was written. Values are not sent.", ITEM),
    "item.deleted": ("It was deleted.", ITEM),
    "kv.set": ("A recipe's source: a key was set.", RECIPES | {"namespace": "ui", "key": "theme"}),
    "kv.deleted": ("A key was deleted.", RECIPES | {"namespace": "ui", "key": "theme"}),
    "kv.cleared": ("The keys of a namespace were deleted.", RECIPES | {"namespace": "ui"}),
    "event.appended": ("An event was logged.", RECIPES | {"id": "log", "ids": ["1"]}),
    "events.appended": ("Several events were logged.", RECIPES | {"id": "log", "ids": ["1", "2"]}),
    "node.added": ("A graph has a new node.", RECIPES | {"id": "people", "ids": ["ada"]}),
    "nodes.added": ("A graph has new nodes.", RECIPES | {"id": "people", "ids": ["ada", "tea"]}),
    "edge.added": ("A graph has a new edge.", RECIPES | {"id": "people", "ids": ["e1"]}),
    "edges.added": ("A graph has new edges.", RECIPES | {"id": "people", "ids": ["e1", "e2"]}),
    "edge.deleted": (
        "An edge was deleted. `id` is the edge.",
        RECIPES | {"id": "e1", "kind": "likes", "from_node_id": "ada", "to_node_id": "tea"},
    ),
    "view.created": ("A view of a graph is new.", RECIPES | {"id": "friends"}),
    "view.deleted": (
        "It was deleted.",
        RECIPES | {"id": "friends", "instance_id": "people", "template_id": "near"},
    ),
    "policy.verdict": (
        "A [policy](trust.md#policies) acted on a write. `id` is the guid of the record, empty for "
        "a text that is no record. There is none for a write that waits for review.",
        {"id": GUID, "policy": "no secrets", "action": "redact"},
    ),
    "dead_letter.added": (
        "A message failed for good.",
        {"id": "1795880489313-0", "swarm": "chat", "agent": "", "attempts": 1},
    ),
    "pipeline.deployed": (
        "A version of the pipeline is in service. Of several deploys in a row, the last one is "
        "certain.",
        {"id": "deploy_2", "name": "notes", "version": 2, "bundle": "9f86d081"},
    ),
    "endpoint.disabled": (
        "Another endpoint was switched off.",
        {
            **{"id": "ep_1f0c", "url": "https://example.com/…#a1b2"},
            "reason": "the receiver answered 410: it is gone",
        },
    ),
    TEST_TYPE: (
        "`endpoints.test` was called. It is sent whatever `events` are.",
        {"message": "This is a test of the endpoint."},
    ),
}
# Values of fields in the examples by their names. Other texts are "".
VALUES: Json = {
    **{"guid": GUID, "id": GUID, "store": STORE, "scope": STORE, "pipeline": "UID"},
    **{"kind": "observation", "source": "memory_write", "version": "1f0c9a", "tags": ["people"]},
    **{"memory_id": "mem_3a", "key": "drink", "value": "tea", "agent_id": "global"},
    **{"namespace": "", "owner": "ada", "fact_type": "world_knowledge"},
    **{"execution_id": "1795880489313-0", "trigger_type": "message"},
}


def list_types() -> list[str]:
    """Return all types of events, those of one family together."""
    return [*EVENTS]


def make_schema() -> Json:
    """Return the JSON Schema of the body of a request in the format `standard`."""
    definitions = {name: make_shape(name) for name in (*_views(), IDS)}
    definitions |= {type_: make_event_schema(type_) for type_ in list_types()}
    refs = [{"$ref": f"#/$defs/{type_}"} for type_ in list_types()]
    return {
        "$schema": DIALECT,
        "title": "Events of Memrelay's endpoints",
        "oneOf": refs,
        "$defs": definitions,
    }


def make_event_schema(type_: str) -> Json:
    """Return the JSON Schema of one event, with references to the shapes of records."""
    when, _ = EVENTS[type_]
    refs = [{"$ref": f"#/$defs/{name}"} for name in find_shapes(type_)]
    if not refs:
        data = _make_object(FIELDS[type_])
    else:
        data = refs[0] if len(refs) == 1 else {"anyOf": refs}
    timestamp = TEXT | {"format": "date-time"}
    fields = {"type": {"const": type_}, "timestamp": timestamp, "data": data}
    return _make_object(fields) | {"description": when}


def find_shapes(type_: str) -> list[str]:
    """Return the shapes that `data` of an event may have; none if the event has its own fields."""
    if type_ in FIELDS:
        return []
    kinds = [one for one in kind_events().values() if _is_of_kind(type_, one)]
    if type_ in RECORD_TYPES:
        view = RecordView.__name__
    else:
        (events,) = kinds
        view = _view_of(events).__name__
        if events.has_ids_only:
            return [view, IDS]
    return [IDS] if is_deletion(type_) else [view, IDS]


def _is_of_kind(type_: str, events: Any) -> bool:
    return type_ in (*events.names.values(), *events.further)


def _view_of(events: Any) -> type[Any]:
    view: type[Any] = get_type_hints(load(events.view))["return"]
    return view


@cache
def _views() -> Mapping[str, type[Any]]:
    """Return the dataclasses of records, by name."""
    views: list[type[Any]] = [RecordView, *(_view_of(one) for one in kind_events().values())]
    return {view.__name__: view for view in views}


def make_shape(name: str) -> Json:
    """Return the JSON Schema of `data` with a record: its fields, `guid` and `store`."""
    if name == IDS:
        return _make_object(IDS_FIELDS, required=("guid", "store"))
    view = _views()[name]
    schema = TypeAdapter(view).json_schema(mode="serialization")
    definitions = schema.pop("$defs", {})
    fields = _inline(schema["properties"], definitions)
    for field, text in read_descriptions(view).items():
        if field in fields:
            fields[field].setdefault("description", " ".join(text.split()))
    fields = {"guid": TEXT, "store": TEXT} | fields
    required = tuple(fields)
    if any(events.has_ids_only and _view_of(events) is view for events in kind_events().values()):
        fields["deleted"] = IDS_FIELDS["deleted"]
    return _make_object(fields, required)


def _inline(value: Any, definitions: Json) -> Any:
    """Return a schema without titles, and with the definitions in place of references."""
    if isinstance(value, list):
        return [_inline(one, definitions) for one in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return _inline(definitions[value["$ref"].rpartition("/")[2]], definitions)
    is_title = isinstance(value.get("title"), str)
    return {
        name: _inline(one, definitions)
        for name, one in value.items()
        if not (name == "title" and is_title)
    }


def _make_object(fields: Json, required: tuple[str, ...] | None = None) -> Json:
    return {
        "type": "object",
        "properties": fields,
        "required": [*fields] if required is None else [*required],
    }


def make_example(type_: str) -> Json:
    """Return the body of an event of this type."""
    _, values = EVENTS[type_]
    shapes = find_shapes(type_)
    shape = make_shape(shapes[0]) if shapes else _make_object(FIELDS[type_])
    data = {
        name: values.get(name, _find_value(name, shape["properties"][name]))
        for name in shape["required"]
    }
    return {"type": type_, "timestamp": AT, "data": data}


def _find_value(name: str, schema: Json) -> Any:
    """Return the example of a field: by its name, or the least value of its type."""
    options = schema.get("anyOf", [schema])
    types = [one.get("type") for one in options]
    if "null" in types and name not in ("owner",):
        return None
    if "format" in schema:
        return AT
    if "enum" in schema:
        return schema["enum"][0]
    if schema.get("type") == "object" and "properties" in schema:
        return {field: _find_value(field, one) for field, one in schema["properties"].items()}
    if name in VALUES:
        return VALUES[name]
    least = {"string": "", "integer": 0, "number": 0.5, "boolean": False, "array": [], "object": {}}
    return least.get(types[0])


def fill(page: str) -> str:
    """Return the page with the generated part made again."""
    head, mark, _ = page.partition(MARK)
    assert mark, f"{PAGE} lacks the line {MARK}"
    return "\n".join([head + mark, *_write_events(), *_write_shapes(), ""])


def _write_events() -> Iterator[str]:
    for type_ in list_types():
        when, _ = EVENTS[type_]
        shapes = [f"[{name}](#{name.lower()})" for name in find_shapes(type_)]
        yield f"\n### {type_}\n"
        yield when + (f" `data`: {' or '.join(shapes)}." if shapes else "") + "\n"
        yield f"```json\n{json.dumps(make_example(type_), ensure_ascii=False)}\n```"


def _write_shapes() -> Iterator[str]:
    yield "\n## Records in events"
    for name in (*_views(), IDS):
        shape = make_shape(name)
        yield f"\n### {name}\n"
        yield "| field | type | |\n|---|---|---|"
        for field, schema in shape["properties"].items():
            text = schema.get("description", "")
            optional = "" if field in shape["required"] else "only if it applies. "
            yield f"| `{field}` | {_name_type(schema)} | {optional}{text} |".replace("  |", " |")


def _name_type(schema: Json) -> str:
    options = [_name_type(one) for one in schema.get("anyOf", ())]
    if options:
        return " or ".join(options)
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if schema.get("format") == "date-time":
        return "time"
    names = {"string": "text", "integer": "number", "boolean": "true or false", "array": "list"}
    name = str(schema.get("type", "any value"))
    return names.get(name, name)


def dump_schema() -> str:
    """Return the contents of docs/events.schema.json."""
    return json.dumps(make_schema(), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    assert {*list_types()} == {*list_event_types(), TEST_TYPE}
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    SCHEMA.write_text(dump_schema(), encoding="utf-8")
