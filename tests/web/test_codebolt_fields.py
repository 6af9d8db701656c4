"""Fields of Codebolt's requests: spellings, nesting, unknown names, and their JSON schemas."""

from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import TypeAdapter

from memrelay.web.models.request_fields import (
    Body,
    Fields,
    ParsedInput,
    read_fields,
    same,
    spell,
    within,
)
from memrelay.web.models.shapes import make_body_shape

EVENT = spell(kind=("event_type", "eventType")) | same("payload")


def read(fields: Fields, body: dict[str, Any]) -> ParsedInput:
    parsed = ParsedInput()
    read_fields(fields, body, parsed)
    return parsed


def codes_of(parsed: ParsedInput) -> list[tuple[str, str]]:
    return [(fault["pointer"], fault["code"]) for fault in parsed.faults]


def test_each_spelling_of_a_field_sets_it() -> None:
    for spelling in ("event_type", "eventType"):
        parsed = read(EVENT, {spelling: "login"})
        assert (parsed.values, parsed.locate("/kind")) == ({"kind": "login"}, f"/{spelling}")
        assert parsed.faults == []


def test_spellings_with_different_values_are_a_fault() -> None:
    equal = read(EVENT, {"event_type": "a", "eventType": "a"})
    differ = read(EVENT, {"event_type": "a", "eventType": "b"})

    assert equal.faults == []
    assert codes_of(differ) == [("/eventType", "conflicting_keys")]


def test_a_missing_field_is_located_at_its_documented_spelling() -> None:
    parsed = read(EVENT, {})

    assert parsed.values == {}
    assert parsed.locate("/kind") == "/event_type"
    assert parsed.locate("/unmapped/0") == "/unmapped/0"


def test_fields_of_an_object_are_read_from_it() -> None:
    fields = spell(instance=("from/instance", "instance"), stream="from/stream")

    parsed = read(fields, {"from": {"instance": "log", "strem": "x"}})
    flat = read(fields, {"instance": "log"})
    wrong = read(fields, {"from": "log"})

    assert parsed.values == flat.values == {"instance": "log"}
    assert codes_of(parsed) == [("/from/strem", "unknown_field")]
    assert "did you mean" in parsed.faults[0]["rule"]
    assert (parsed.locate("/instance"), flat.locate("/instance")) == ("/from/instance", "/instance")
    assert codes_of(wrong) == [("/from", "bad_type")]


def test_a_single_item_becomes_a_list() -> None:
    parsed = read(within("events/0", "", EVENT), {"eventType": "login", "payload": {"a": 1}})

    assert parsed.values == {"events": [{"kind": "login", "payload": {"a": 1}}]}
    assert parsed.locate("/events/0/kind") == "/eventType"
    assert parsed.locate("/events/0/payload/a") == "/payload/a"


def test_each_item_of_a_list_has_the_spellings() -> None:
    fields = within("events/*", "events/*", EVENT)

    parsed = read(fields, {"events": [{"event_type": "a"}, {}, {"eventType": "b", "x": 1}]})

    assert parsed.values == {"events": [{"kind": "a"}, {}, {"kind": "b"}]}
    assert parsed.locate("/events/1/kind") == "/events/1/event_type"
    assert parsed.locate("/events/2/kind") == "/events/2/eventType"
    assert codes_of(parsed) == [("/events/2/x", "unknown_field")]


@pytest.mark.parametrize("value", ["x", {"a": 1}, ["x"], None, 3])
def test_a_list_of_another_type_is_left_to_the_operation(value: Any) -> None:
    parsed = read(within("events/*", "items/*", EVENT), {"items": value})

    assert parsed.values == {"events": value} and parsed.faults == []
    assert parsed.locate("/events/0") == "/items/0"


@dataclass(frozen=True, slots=True)
class Part:
    name: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class Whole:
    store: str
    parts: list[Part]
    note: str | None = None


def test_a_body_schema_has_the_spellings_and_the_types_of_the_operation() -> None:
    fields = spell(store="from/store", note=("note", "remark")) | within(
        "parts/*", "parts/*", same("name", "size")
    )
    adapter = TypeAdapter(make_body_shape("whole", Whole, Body(fields=fields)))
    schema = adapter.json_schema()

    assert set(schema["properties"]) == {"from", "note", "remark", "parts"}
    assert schema["required"] == ["from", "parts"]
    assert schema["additionalProperties"] is False
    adapter.validate_python({"from": {"store": "s"}, "parts": [{"name": "n", "size": 1}]})
    for body in ({"from": {}, "parts": []}, {"from": {"store": "s"}, "parts": [{"size": 1}]}):
        with pytest.raises(ValueError, match="required"):
            adapter.validate_python(body)


def test_a_body_with_two_forms_has_both_schemas() -> None:
    body = Body(
        fields=within("parts/0", "", same("name")),
        batch_key="parts",
        batch=within("parts/*", "parts/*", same("name")),
    )

    adapter = TypeAdapter(make_body_shape("both", Whole, body))

    for value in ({"name": "n"}, {"parts": [{"name": "n"}]}):
        assert adapter.validate_python(value) == value
