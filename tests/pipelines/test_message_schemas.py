"""JSON Schema of messages: what it accepts, its bounds, and its faults at deploy."""

import json
import subprocess
import sys
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from memrelay.pipelines.message_schemas import BadSchema, MessageSchema
from tests.pipelines.builders import faults_of, make_chat, make_memory, warnings_of
from tests.test_pattern_growth import is_superlinear

ORDER = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$defs": {"price": {"type": "number", "minimum": 0}},
    "type": "object",
    "required": ["items"],
    "properties": {
        "code": {"pattern": "^[A-Z]{2}$"},
        "items": {
            "type": "array",
            "uniqueItems": True,
            "items": {
                "properties": {"price": {"$ref": "#/$defs/price"}},
                "patternProperties": {"^x-": {"type": "string"}},
                "additionalProperties": False,
            },
        },
    },
}


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('{"items": []}', ""),
        ('{"items": [{"price": 1, "x-a": "b"}, {"price": 2}], "code": "AB", "more": 1}', ""),
        ("{}", '$ needs the property "items"'),
        ("tea", '$ breaks type: "object"'),
        ('{"items": [{"price": -5}]}', "$.items[0].price breaks properties.items.items."),
        ('{"items": [{"secret": 1}]}', "$.items[0] breaks properties.items.items.additional"),
        ('{"items": [{"x-secret": 1}]}', "$.items[0].* breaks properties.items.items.pattern"),
        ('{"items": [{"price": 1}, {"price": 1.0}]}', "$.items breaks properties.items.unique"),
        ('{"items": [], "code": "secret"}', "$.code breaks properties.code.pattern: "),
    ],
)
def test_a_text_is_compared_with_the_schema_and_not_quoted(text: str, fault: str) -> None:
    found = MessageSchema(ORDER).find_fault(text)

    assert found.startswith(fault)
    assert bool(found) == bool(fault)
    assert "secret" not in found


def test_a_text_that_is_not_json_is_a_string() -> None:
    schema = MessageSchema({"type": "string", "maxLength": 3})

    assert [bool(schema.find_fault(text)) for text in ("tea", "", "coffee", "1")] == [
        *(False, False),
        *(True, True),
    ]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "b", 1.0, 0.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=6,
)
SCHEMAS = st.recursive(
    st.booleans()
    | st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["array", "object", "integer", "string", "null"]),
            "pattern": st.sampled_from(["a", "^$", "b$"]),
            "uniqueItems": st.booleans(),
            "required": st.sampled_from([["a"], ["a", "b"]]),
            "enum": st.lists(VALUES, min_size=1, max_size=3),
            "const": VALUES,
        },
    ),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "items": inner,
            "contains": inner,
            "properties": st.dictionaries(st.sampled_from("ab"), inner),
            "patternProperties": st.dictionaries(st.sampled_from(["a", "[ab]"]), inner),
            "additionalProperties": inner,
            "propertyNames": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "oneOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
        },
    ),
    max_leaves=5,
)


@given(SCHEMAS.filter(lambda schema: isinstance(schema, dict)), VALUES)
def test_the_verdict_is_that_of_the_library(schema: dict[str, Any], value: Any) -> None:
    is_valid = Draft202012Validator(schema).is_valid(value)

    assert (MessageSchema(schema).find_fault(json.dumps(value)) == "") == is_valid


DOUBLING = {
    "$defs": {f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(30)}
    | {"d30": {}},
    "$ref": "#/$defs/d0",
}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"anyOf": [{"type": "string"}] * 3000}, [1] * 100_000),
        ({"$defs": {"a": {"allOf": [{"$ref": "#"}] * 2}}, "$ref": "#/$defs/a"}, 1),
        (DOUBLING, 1),
        ({"uniqueItems": True}, list(range(1001))),
        ({"items": {"uniqueItems": True}}, [list(range(1000))] * 200),
        ({"items": {"enum": [["a"] * 50] * 20}}, [["a"] * 50] * 1000),
        (
            {"patternProperties": {f"a{at}": {} for at in range(100)}},
            dict.fromkeys(map(str, range(9999))),
        ),
        ({"items": {"pattern": "(a|b)*c"}}, ["ab" * 500] * 7000),
    ],
)
def test_a_bound_ends_an_evaluation(schema: dict[str, Any], value: object) -> None:
    found = MessageSchema(schema).find_fault(json.dumps(value))
    assert "at most" in found or "more than" in found


def test_a_number_or_nesting_beyond_the_validator_is_a_fault() -> None:
    assert MessageSchema({"multipleOf": 0.5}).find_fault("9" * 400)
    assert MessageSchema({"items": {"$ref": "#"}}).find_fault("[" * 190 + "]" * 190)


@pytest.mark.parametrize(
    ("schema", "make"),
    [
        ({"items": {"type": "string"}}, lambda size: json.dumps(["a"] * (size // 5))),
        ({"uniqueItems": True}, lambda size: json.dumps([{"a": at} for at in range(size // 13)])),
        ({"pattern": "(a|aa)+$"}, lambda size: "a" * size + "b"),
        ({"patternProperties": {"(x+x+)+y": {}}}, lambda size: json.dumps({"x" * size: 1})),
        (
            {"additionalProperties": False, "patternProperties": {"^(a*)*$": {}}},
            lambda size: json.dumps({"a" * size + "!": 1}),
        ),
        (
            {"anyOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "#"}}]},
            lambda size: "[" * min(size // 2, 199) + "]" * min(size // 2, 199),
        ),
    ],
)
def test_an_evaluation_takes_linear_time(schema: dict[str, Any], make: Any) -> None:
    compiled = MessageSchema(schema)
    for size in (4 << 10, 12 << 10):
        assert not is_superlinear(partial(run, compiled), make, size)


def run(schema: MessageSchema, text: str | bytes) -> None:
    schema.find_fault(str(text))


@pytest.mark.parametrize(
    ("schema", "path", "rule"),
    [
        ({"pattern": "(?=a)"}, ("pattern",), "RE2 refuses"),
        ({"patternProperties": {"(a)\\1": {}}}, ("patternProperties", "(a)\\1"), "RE2 refuses"),
        ({"$ref": "https://x.example/s"}, ("$ref",), "stays inside the schema"),
        ({"items": {"$ref": "#/$defs/a"}}, ("items", "$ref"), "no schema at"),
        ({"$ref": "#/const", "const": {"pattern": "("}}, ("$ref",), "no schema at"),
        ({"unevaluatedProperties": False}, ("unevaluatedProperties",), "not available"),
        ({"items": {"$id": "https://x.example"}}, ("items", "$id"), "not available"),
        ({"$schema": "https://x.example"}, ("$schema",), "unknown draft"),
        ({"type": "text"}, ("type",), "not JSON Schema"),
        ({"description": "x" * 65_536}, (), "at most 65536 bytes"),
    ],
)
def test_a_wrong_schema_is_refused_at_its_place(
    schema: dict[str, Any], path: tuple[str, ...], rule: str
) -> None:
    with pytest.raises(BadSchema, match=rule) as refused:
        MessageSchema(schema)
    assert refused.value.path == path


def test_a_property_may_have_the_name_of_a_keyword() -> None:
    schema = {"$id": "urn:x", "properties": {"$ref": {"type": "string"}, "$id": {}}}
    assert not MessageSchema(schema).find_fault('{"$ref": "x"}')


def test_the_faults_of_a_bundle_have_their_places() -> None:
    large = {"description": "x" * 60_000}
    chats = [make_chat(agent_alias=f"user{at}", schema=large) for at in range(6)]

    assert faults_of(
        make_memory(schema={"items": {"pattern": "("}}, on_mismatch="chat"),
        make_memory(agent_alias="b", on_mismatch="chit"),
        swarms=[{"name": "chat", "schema": {"type": 1}, "on_mismatch": "chit"}],
    )[0].startswith("agents[0].on_mismatch: the message would come back to the swarm")
    assert faults_of(
        make_chat(), swarms=[{"name": "chat", "schema": {}, "on_mismatch": "chit"}]
    ) == ['swarms[0].on_mismatch: no agent listens on the swarm "chit"; did you mean "chat"?']
    assert faults_of(make_memory(on_mismatch="chit"))[0].endswith(
        "on_mismatch has no effect without a schema; add a schema, or remove it"
    )
    assert faults_of(make_memory(schema={"items": {"pattern": "("}}))[0].startswith(
        "agents[0].schema.items.pattern: RE2 refuses"
    )
    assert "at most 262144 bytes together" in faults_of(*chats)[0]


def test_a_schema_without_effect_is_a_warning() -> None:
    empty, schema = {"wf_interval_secs": 60}, {"type": "object"}

    assert warnings_of(make_chat(schema=schema)) == [
        "agents[0].schema: the agent calls no block, so the schema has no effect; set it on the "
        "swarm"
    ]
    assert "the schema does not accept it" in "".join(
        warnings_of(make_chat(), make_memory(schema=schema, **empty))
    )


def test_a_bundle_without_a_schema_loads_no_validator() -> None:
    program = (
        "import sys; from memrelay.pipelines.check import check; from memrelay.pipelines.plan "
        "import Plan; from tests.support.bundles import make_bundle; "
        "plan = Plan(check(make_bundle('u1')).accepted()); print('jsonschema' in sys.modules, "
        "type(plan.subscribers['chat', 'User']).__name__)"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert out.stdout.split() == ["False", "Subscribers"]
