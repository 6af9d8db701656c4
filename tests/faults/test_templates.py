"""Row 12: a deploy refuses template bombs, or they are stopped within a second when they run."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import orjson
import pytest

from memrelay.blocks.templates import MAX_FILTERS, MAX_SOURCE, MAX_TOGETHER
from tests.support.bundles import (
    STORE,
    Json,
    make_agent,
    make_bundle,
    make_memory,
    make_relay,
    make_uid,
)
from tests.support.http import Answer
from tests.support.web_system import WebSystem

WITHIN_S = 1.0  # of processor time, which other processes may be using too
POINTER = "/agents/0/wf_webhook_args/output_template"
Record = Callable[[str, object], None]
Found = TypeVar("Found")

REFUSED = {
    "a token again and again": ("{{content}}" * 5000, "at most"),
    "a very long text": ("x" * (MAX_SOURCE + 1), "at most"),
    "a loop": (
        "{% for a in content %}{% for b in content %}{{content}}{% endfor %}{% endfor %}",
        "For is not allowed",
    ),
    "a macro that calls itself": (
        "{% macro kind() %}{{kind()}}{% endmacro %}{{kind()}}",
        "not allowed",
    ),
    "a product": ("{{content * 999999999}}", "Mul is not allowed"),
    "a power": ("{{9 ** 9 ** 9}}", "Pow is not allowed"),
    "a tower of filters": (
        "{{content" + "|title" * (MAX_FILTERS + 1) + "}}",
        "nested filters",
    ),
    "filters in filters": (
        "{{" + "content|default(" * 40 + "content" + ")" * 40 + "}}",
        "nested filters",
    ),
    "brackets": ("{{" + "(" * 7000 + "content" + ")" * 7000 + "}}", "nested too deeply"),
    "braces": ("{{" + "{" * 16_000, "nested too deeply"),
    "a large number": ("{{score|round(99999999, 'ceil')}}", "is too large; at most"),
    "a number of many digits": ("{{" + "1" * 5000 + "}}", "digits"),
    "a filter that pads": ("{{content|center(999999999)}}", "unknown filter"),
}
# The template of a bundle and the record that it renders. Each is stopped and reported in its
# answer.
STOPPED = {
    "a long text again and again": ("{{content}}" * 1000, "x" * 100_000, "bytes"),
    "letters of many bytes": ("{{content}}" * 3, "\U0001fad6" * 30_000, "bytes"),
    "a text doubled ten times": (
        "{{content" + "|tojson" * 9 + "|truncate(1, true, '')}}",
        '"' * 100_000,
        "characters",
    ),
    "much work, no text": (
        ("{{content" + "|title" * 8 + "|truncate(1, true, '')}}") * 200,
        "ab " * 100_000,
        "takes longer",
    ),
    "a power of ten by a record's time": (
        "{{created_at|round(created_at, 'ceil')}}",
        "tea",
        "argument",
    ),
    "a text trimmed by itself": ("{{content|trim(content)}}", "a" * 200_000 + "b", "argument"),
}


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as web_system:
        yield web_system
        assert web_system.web.stop() == 0


def make_reader(uid: str, template: str) -> Json:
    return make_bundle(uid, make_reading("reader", template))


def make_reading(name: str, template: str) -> Json:
    return make_agent(
        name, "memory_read", {"memory_id": STORE, "output_template": template}, senders="User"
    )


def measured(pid: int, work: Callable[[], Found]) -> tuple[Found, float]:
    """Return the result, and the processor seconds that the process spent on it."""
    before = worked_s(pid)
    found = work()
    return found, worked_s(pid) - before


def worked_s(pid: int) -> float:
    """Return user and system time of all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("bomb", REFUSED)
def test_a_template_bomb_is_refused_at_deploy(web_system: WebSystem, bomb: str) -> None:
    template, rule = REFUSED[bomb]

    answer, took_s = measured(
        web_system.web.pid,
        lambda: web_system.post("/v1/pipelines", make_reader(make_uid(), template)),
    )

    assert answer.problem[0] == 422
    fault = answer.json["faults"][0]
    assert fault["pointer"] == POINTER and rule in fault["rule"], answer.json
    assert took_s < WITHIN_S


def test_templates_that_are_too_large_together_are_refused(
    web_system: WebSystem, record_property: Record
) -> None:
    agents = [
        make_reading(f"reader{number}", f"{number}{{{{kind}}}}" * 40) for number in range(900)
    ]
    bundle = orjson.dumps(make_bundle(make_uid(), *agents))

    answer, took_s = measured(web_system.web.pid, lambda: web_system.post("/v1/pipelines", bundle))

    assert answer.problem[0] == 422
    rules = {fault["rule"] for fault in answer.json["faults"]}
    assert f"the templates of a bundle have at most {MAX_TOGETHER} characters together" in rules
    assert took_s < WITHIN_S
    record_property("fault", f"12 | 900 templates in a bundle | refused after s {took_s:.3f}")


def test_equal_templates_of_many_agents_count_once(web_system: WebSystem) -> None:
    agents = [make_reading(f"reader{number}", "{{content}}\n" * 30) for number in range(200)]

    assert web_system.post("/v1/pipelines", make_bundle(make_uid(), *agents)).status == 201


@pytest.mark.parametrize("bomb", STOPPED)
def test_a_template_bomb_at_run_time_is_stopped_and_reported(
    web_system: WebSystem, bomb: str, record_property: Record
) -> None:
    template, content, rule = STOPPED[bomb]
    uid = make_uid()
    agents = [
        make_relay("write", r"^/write\s+(.*)", flags="s"),
        make_memory("write"),
        make_relay("read", "^/read"),
        make_memory("read", output_template=template),
    ]
    assert web_system.post("/v1/pipelines", make_bundle(uid, *agents)).status == 201
    assert say(web_system, uid, f"/write {content}").status == 200

    answer, took_s = measured(
        web_system.system.workers[-1].pid, lambda: say(web_system, uid, "/read")
    )

    assert rule in orjson.loads(answer.texts[0])["error"]
    assert took_s < WITHIN_S
    assert "guid" in say(web_system, uid, "/write tea").texts[0]
    assert not web_system.system.dead_letters(uid)
    record_property("fault", f"12 | {bomb} | stopped after s {took_s:.3f}")


def say(web_system: WebSystem, uid: str, text: str) -> Answer:
    return web_system.say(uid, {"text": text}, query="?wait=60")
