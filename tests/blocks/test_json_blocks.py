"""json_match and json_map, and the content and data that memory blocks take from JSON."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from memrelay.pipelines.expressions import ExpressionFault
from memrelay.web.server.options import WebOptions
from memrelay.web.webhooks.body import read_webhook_body
from tests.blocks.calls import MEMORY_ID, answer, args_of, make_call, make_message
from tests.memory.builders import make_store, read_all

EVENT = {"action": "opened", "issue": {"title": "Müller", "number": 7}, "labels": []}
TEXT = json.dumps(EVENT)


def ask_json(block: str, text: str, **args: Any) -> dict[str, Any] | None:
    """Return the first part of the answer."""
    said = answer(block, make_call(make_message(text)), **args)
    return None if said is None else said["args"][0]


@pytest.mark.parametrize(
    ("expression", "passes"),
    [
        ("action == 'opened'", True),
        ("action == 'closed'", False),
        ("issue.number > `5` && contains(issue.title, 'M')", True),
        ("labels", False),
        ("missing.field", False),
        ("length(missing) > `1`", False),
        ("issue.number", True),
        ("`0`", True),
    ],
)
def test_a_condition_passes_a_message_on(expression: str, passes: bool) -> None:
    part = ask_json("json_match", TEXT, expression=expression)
    assert (part is not None and part["text"] == TEXT) == passes


def test_a_text_that_is_not_json_has_the_field_text() -> None:
    assert ask_json("json_match", "{tea", expression="text == '{tea'")
    assert ask_json("json_match", "tea", expression="action") is None


@pytest.mark.parametrize(
    ("expression", "text", "kind"),
    [
        ("issue.title", "Müller", "text/plain"),
        ("issue.number", "7", "application/json"),
        ("{what: issue.title}", '{"what":"Müller"}', "application/json"),
        ("labels", "[]", "application/json"),
    ],
)
def test_a_part_of_the_json_is_published(expression: str, text: str, kind: str) -> None:
    part = ask_json("json_map", TEXT, expression=expression)
    assert part is not None
    assert (part["text"], part["type"]) == (text, kind)
    assert ask_json("json_map", TEXT, expression="missing") is None


@pytest.mark.parametrize("block", ["json_match", "json_map"])
def test_a_wrong_expression_is_a_fault_and_a_bound_an_error(block: str) -> None:
    with pytest.raises(ValidationError, match="not JMESPath"):
        args_of(block, expression="a..b")
    with pytest.raises(ExpressionFault):
        ask_json(block, TEXT, expression="|".join(["[@,@,@]"] * 18))


@pytest.mark.parametrize("block", ["memory_write", "memory_append", "memory_turn"])
def test_a_record_takes_its_content_and_data_from_json(block: str, tmp_path: Path) -> None:
    store = make_store(tmp_path)
    args = {"memory_id": MEMORY_ID, "content": "issue.title", "data": "{n: issue.number}"}

    with store.transaction() as tx:
        answer(block, make_call(make_message(TEXT), tx), **args)
        answer(block, make_call(make_message("no JSON"), tx), **args)

    contents = [record.content for record in read_all(store)]
    assert contents == ["Müller", "no JSON"]
    rows = store.connection.execute("SELECT data FROM records ORDER BY row").fetchall()
    assert [data for (data,) in rows] == ['{"n":7}', '{"n":null}']


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ issue.title }} ({{ action | upper }})", "Müller (OPENED)"),
        ("{{ issue['number'] }}, {{ issue }}", '7, {"title":"Müller","number":7}'),
        ("{{ items.keys }}{{ missing.field[0] }}{{ none }}", '"own"'),
        ("{{ missing | default('-') }} {{ flag }} {{ items.values[1] }}", "- true 2"),
        ("{{ issue.__class__.__mro__ }}{{ range }}{{ self.x }}", ""),
    ],
)
def test_a_template_reads_the_fields_of_the_json(source: str, text: str) -> None:
    own = {"items": {"keys": '"own"', "values": [1, 2]}, "flag": True, "none": None}
    part = ask_json("template", json.dumps(EVENT | own), template=source)
    assert part is not None
    assert (part["text"], part["type"]) == (text, "text/plain")


def test_a_template_reads_other_values_and_texts() -> None:
    for sent, text in (('[{"id": 5}]', "5 "), ("tea", " tea")):
        part = ask_json("template", sent, template="{{ value[0].id }} {{ text }}")
        assert part is not None
        assert part["text"] == text


@pytest.mark.parametrize(
    "source", ["{% for a in b %}{% endfor %}", "{{ a() }}", "{{ a.b(1) }}", "{{ a | safe }}", "{{"]
)
def test_a_template_has_no_statements_and_calls(source: str) -> None:
    with pytest.raises(ValidationError, match="template: "):
        args_of("template", template=source)


def test_data_that_does_not_fit_is_left_out_with_the_reason(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    body = {"ref": "main", "commits": ["x" * 1000] * 100, "id": 2**70}
    body |= {f"k{number}": "x" * 50 for number in range(2_000)}

    with store.transaction() as tx:
        call = make_call(make_message(json.dumps(body)), tx)
        answer("memory_write", call, memory_id=MEMORY_ID, data="@")
        call = make_call(make_message('["a"]'), tx)
        answer("memory_write", call, memory_id=MEMORY_ID, data="@")

    rows = store.connection.execute("SELECT content, data FROM records ORDER BY row").fetchall()
    data = json.loads(rows[0][1])
    assert rows[0][0] == json.dumps(body)
    assert data["ref"] == "main" and "k5" in data
    assert "65536 bytes" in data["_left_out"]["commits"]
    assert "64 bits" in data["_left_out"]["id"]
    assert len(data["_left_out"]) == 11
    assert len(rows[0][1].encode()) <= 65_536
    assert json.loads(rows[1][1]) == {"value": ["a"]}


def test_a_pattern_matches_the_decoded_text_of_a_webhook() -> None:
    body = read_webhook_body(b'{"title": "M\\u00fcller"}', "", WebOptions())
    part = ask_json("regex_match", body.text, pattern='"title": "(Müller)"')
    assert part is not None
    assert part["text"] == "Müller"
