"""The templates of HTTP requests: values of strangers stay values."""

from typing import Any

import orjson
import pytest

from memrelay.blocks.contract import DeferredCall
from memrelay.blocks.registry import built_in_blocks
from memrelay.blocks.request_templates import MAX_PARTS, BodyTemplate, UrlTemplate
from memrelay.memory.errors import Refused, ResultTooLarge
from tests.blocks.calls import make_call, make_message

ISSUE = {"issue": {"title": 'say "hi"', "number": 7, "labels": ["a", "b"]}, "n": None}


def request(block: str, text: str, /, **args: Any) -> Any:
    """Return the request that a block makes of a message."""
    found = built_in_blocks()[block]
    asked = found.handle(make_call(make_message(text)), found.args(**args))  # type: ignore[misc]
    assert isinstance(asked, DeferredCall)
    return asked.request


@pytest.mark.parametrize(
    ("template", "body"),
    [
        ({"text": "{{ issue.title }}"}, {"text": 'say "hi"'}),
        ({"t": "#{{ issue.number }}: {{ issue.title }}"}, {"t": '#7: say "hi"'}),
        ({"n": "{{ issue.number }}"}, {"n": 7}),
        ({"n": "{{ issue.number }}{{ n }}"}, {"n": "7"}),
        (["{{ issue.labels }}", "{{issue.labels | tojson}}"], [["a", "b"], '["a", "b"]']),
        ({"all": "{{ issue }}"}, {"all": ISSUE["issue"]}),
        ({"gone": "{{ no.such }}", "null": "{{ n }}"}, {"gone": None, "null": None}),
        ({"t": "{{ issue.title | upper }}"}, {"t": 'SAY "HI"'}),
        ({"fixed": [1, True, None, "plain", "{"]}, {"fixed": [1, True, None, "plain", "{"]}),
    ],
)
def test_a_value_is_inserted_as_text_or_as_json(template: Any, body: Any) -> None:
    assert orjson.loads(BodyTemplate(template).render(ISSUE, 1000)) == body


def test_no_value_changes_the_structure_of_a_body() -> None:
    hostile = {"title": 'x", "channel": "#all", "y": "{{ title }}'}

    body = BodyTemplate({"text": "{{ title }}", "more": "a {{ title }}"}).render(hostile, 1000)

    assert orjson.loads(body) == {"text": hostile["title"], "more": f"a {hostile['title']}"}


def test_a_body_has_bounds() -> None:
    with pytest.raises(ResultTooLarge, match="more than 1000 bytes"):
        BodyTemplate(["{{ value }}"] * 100).render("a" * 50, 1000)
    with pytest.raises(ValueError, match=f"more than {MAX_PARTS} values"):
        BodyTemplate(["a"] * MAX_PARTS)


def test_values_in_a_url_are_percent_encoded() -> None:
    url = UrlTemplate("https://a.example:8443/i/{{ a }}/x?q={{ b }}&r={{ c.d }}")

    rendered = url.render({"a": "x/../y?z#f@", "b": "1&admin=1 é", "c": {"d": 5}})

    assert url.host == "a.example"
    assert rendered == (
        "https://a.example:8443/i/x%2F..%2Fy%3Fz%23f%40/x?q=1%26admin%3D1%20%C3%A9&r=5"
    )


@pytest.mark.parametrize("value", ["..", "."])
def test_a_value_is_no_step_to_another_folder(value: str) -> None:
    with pytest.raises(Refused, match="segment"):
        UrlTemplate("https://a.example/users/{{ a }}/x").render({"a": value})


@pytest.mark.parametrize(
    "url",
    [
        "https://{{ host }}/",
        "https://a.example{{ more }}/",
        "https://a.example:{{ port }}/",
        "{{ url }}",
        "https://user:pw@a.example/",
        "https://a.example/#{{ a }}",
        "ftp://a.example/",
        "https://a.example/{{ a",
        "https://a.example/{% for x in y %}{% endfor %}",
        "/v1",
        "https://é.example/",
    ],
)
def test_a_url_that_a_value_could_redirect_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        UrlTemplate(url)


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "b"},
        {"content-length": "1"},
        {"Cookie": "a"},
        {"Webhook-Id": "1"},
        {"a b": "1"},
        {"X-A": "1", "x-a": "2"},
        {"X-A": {"secret": "sk-literal"}},
        {"X-A": {"secret": "env:A", "suffix": "b"}},
        {"X-A": "{{ a"},
    ],
)
def test_headers_of_ours_and_malformed_ones_are_refused(headers: Any) -> None:
    args = built_in_blocks()["http_request"].args

    with pytest.raises(ValueError) as caught:
        args(url="https://a.example/", headers=headers)
    assert "sk-literal" not in str(caught.value).partition("input_value")[0]


@pytest.mark.parametrize("value", ["a\r\nX-B: 1", "a\n", "a" * 1025, "\x00"])
def test_a_value_never_ends_a_header(value: str) -> None:
    text = orjson.dumps({"a": value}).decode()

    with pytest.raises(Refused, match="the header X-A"):
        request("http_request", text, url="https://a.example/", headers={"X-A": "{{ a }}"})


def test_a_request_is_stored_with_references_and_not_with_secrets() -> None:
    asked = request(
        "http_request",
        '{"q": "tea & milk"}',
        url="env:URL",
        method="POST",
        headers={"Authorization": {"secret": "env:KEY", "prefix": "Bearer "}},
        form={"query": "{{ q }}"},
    )

    assert asked["url"] == "env:URL"
    assert asked["headers"] == {"Authorization": {"secret": "env:KEY", "prefix": "Bearer "}}
    assert asked["content"] == "query=tea+%26+milk"


def test_a_text_template_is_plain_text_and_never_json() -> None:
    asked = request("http_request", '{"q": 1}', url="https://a.example/", text='{"x": {{ q }}}')

    assert (asked["content"], asked["type"]) == ('{"x": 1}', "text/plain; charset=utf-8")


@pytest.mark.parametrize(("text", "content"), [("tea", '{"text":"tea"}'), ('{"a": 1}', '{"a":1}')])
def test_a_webhook_has_the_json_of_the_message(text: str, content: str) -> None:
    assert request("webhook_send", text, url="https://a.example/")["content"] == content
