"""POST /v1/patterns/test: patterns, expressions and templates, with the engines of the blocks."""

from typing import Any

import pytest

from tests.support.http import Answer
from tests.support.web_system import WebSystem


def ask_test(web_system: WebSystem, kind: str, pattern: str, text: str, **more: Any) -> Answer:
    body = {"kind": kind, "pattern": pattern, "text": text, **more}
    return web_system.post("/v1/patterns/test", body)


def test_a_pattern_shows_its_groups_and_where_they_are(web_system: WebSystem) -> None:
    answer = ask_test(web_system, "regex", r"/(\w+) (?P<rest>.*)|(never)", "say /note ü tea")

    assert answer.json == {
        "valid": True,
        "fault": "",
        "result": {
            "matched": True,
            "groups": {"0": "/note ü tea", "1": "note", "2": "ü tea", "rest": "ü tea"},
            "spans": [[4, 15], [5, 9], [10, 15], [-1, -1]],
        },
    }


def test_flags_apply_and_no_match_is_a_valid_result(web_system: WebSystem) -> None:
    with_flag = ask_test(web_system, "regex", "TEA", "green tea", flags="i").json
    without = ask_test(web_system, "regex", "TEA", "green tea").json

    assert with_flag["result"]["spans"] == [[6, 9]]
    assert without == {
        "valid": True,
        "fault": "",
        "result": {"matched": False, "groups": {}, "spans": []},
    }


@pytest.mark.parametrize(
    ("kind", "pattern", "text", "result"),
    [
        ("jmespath", "issue.title", '{"issue": {"title": "Leak"}}', "Leak"),
        ("jmespath", "issue.{t: title}", '{"issue": {"title": "Leak"}}', {"t": "Leak"}),
        ("jmespath", "text", "no JSON", "no JSON"),
        ("jmespath", "absent", "{}", None),
        ("template", "{{ who | upper }}: {{ n }}", '{"who": "ada", "n": 3}', "ADA: 3"),
    ],
)
def test_expressions_and_templates_read_the_json_of_the_text(
    web_system: WebSystem, kind: str, pattern: str, text: str, result: Any
) -> None:
    assert ask_test(web_system, kind, pattern, text).json == {
        "valid": True,
        "fault": "",
        "result": result,
    }


@pytest.mark.parametrize(
    ("kind", "pattern", "part"),
    [
        ("regex", "(", "missing )"),
        ("regex", r"(a)\1", "back-references are not available"),
        ("regex", "a" * 2001, "at most 2000"),
        ("jmespath", "$.a", "write a.b for $.a.b"),
        ("jmespath", "size(a)", "no function 'size'"),
        ("template", "{% for x in y %}{% endfor %}", "For is not allowed"),
    ],
)
def test_an_invalid_pattern_gets_the_rule(
    web_system: WebSystem, kind: str, pattern: str, part: str
) -> None:
    answer = ask_test(web_system, kind, pattern, "text").json

    assert (answer["valid"], answer["result"]) == (False, None) and part in answer["fault"]


@pytest.mark.parametrize(
    ("kind", "pattern", "text"),
    [
        ("regex", "(a*)*b", "a" * 60_000),
        ("jmespath", "sort(split) && sort(split)", "[" + "1," * 20_000 + "1]"),
        ("template", "{{ text | replace('a', 'aaaa') }}", "a" * 60_000),
        ("template", "{{ text | truncate(10000) | title | title | title }}", "a" * 60_000),
    ],
)
def test_a_hostile_pattern_ends_and_the_server_answers(
    web_system: WebSystem, kind: str, pattern: str, text: str
) -> None:
    answer = ask_test(web_system, kind, pattern, text)

    assert answer.status == 200 and web_system.get("/live").status == 200


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"kind": "glob", "pattern": "", "text": ""}, "`kind` must be one of"),
        ({"kind": "regex", "pattern": 1, "text": ""}, "`pattern` must be a text"),
        ({"kind": "regex", "pattern": ""}, "`text` must be a text"),
        ({"kind": "regex", "pattern": "", "text": "", "x": ""}, "unknown field 'x'"),
        ({"kind": "regex", "pattern": "a" * 16_385, "text": ""}, "at most 16384"),
        ({"kind": "regex", "pattern": "a", "text": "ü" * 32_769}, "more than 64 KiB"),
        (b"[1]", "the body must be an object"),
    ],
)
def test_an_invalid_request_gets_the_rule(web_system: WebSystem, body: Any, detail: str) -> None:
    status, found = web_system.post("/v1/patterns/test", body).problem

    assert status == 422 and detail in found
