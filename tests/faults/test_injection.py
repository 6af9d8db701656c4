"""Row 11: text in any field is data. It is found unchanged and never acts as code, path or log
line.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.faults.conftest import RecordFigures
from tests.support.bundles import Json, make_agent, make_bundle, make_memory, make_uid
from tests.support.client import swarm_of
from tests.support.http import ask
from tests.support.program import Program
from tests.support.web_system import WebSystem

SQL = [
    "'; DROP TABLE records; --",
    '" OR 1=1 --',
    "x'); DELETE FROM records WHERE ('1'='1",
    "Robert\\'); --",
    "%_[]",
    "\x1a' --",
]
FTS = [
    '"',
    '""',
    '" OR "',
    "tea AND NOT",
    "NEAR(tea, 5)",
    "tea*",
    "content:tea",
    "^tea",
    "{a b}: c",
    "(tea",
    "-tea",
    'tea"*',
    "*",
]
TEMPLATES = [
    "{{ 7 * 7 }}",
    "{% for x in range(9) %}x{% endfor %}",
    "{{ ''.__class__.__mro__ }}",
    "${pipeline_uid}",
    "{content}",
    "%(content)s",
    "{# gone #}",
    "$(id)",
    "`id`",
]
LOGS = [
    "tea\n2026-11-22T05:00:00Z [info     ] forged event=yes",
    '\r\n{"event": "forged", "level": "info"}',
    "\x1b[2J\x1b]0;x\x07",
    "\x9b31m",
    "\u2028forged",
    "\u202eforged",
]
PATHS = [
    "../../../etc/passwd",
    "..",
    "/etc/passwd",
    "a/../../b",
    "a\\..\\b",
    "file:///etc/passwd",
    "%2e%2e%2f",
    "CON",
    "a\x00b",
]
ALL = [*SQL, *FTS, *TEMPLATES, *LOGS, *PATHS]
SHOWN = "{{ content }}\n---\n"
some_text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=200)


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    """One server for all tests."""
    with WebSystem() as web_system:
        yield web_system


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    """Deploy a pipeline that stores webhook texts, finds them by words, and renders them by a
    template.
    """
    return web_system.deploy(
        make_memory("write", senders="nobody"),
        make_memory("search", senders="nobody"),
        make_memory("read", senders="nobody", alias="shows", output_template=SHOWN),
        make_memory("read", senders="nobody"),
        make_memory("delete", senders="nobody"),
    )


@pytest.fixture(scope="module")
def words(web_system: WebSystem) -> str:
    """Deploy a pipeline whose records stay."""
    return web_system.deploy(
        make_memory("write", senders="nobody"), make_memory("search", senders="nobody", limit=1000)
    )


def write(web_system: WebSystem, uid: str, text: str, **part: str) -> str:
    """Return the GUID of a record."""
    answer = web_system.webhook(uid, "memory_write_", {"text": text} | part, query="?wait=60")
    return str(json.loads(answer.texts[0])["guid"])


def assert_kept(web_system: WebSystem, uid: str, text: str) -> None:
    """Check that a text is stored unchanged, listed, rendered by a template, and found by its
    words.
    """
    guid = write(web_system, uid, text)
    listed = json.loads(web_system.webhook(uid, "memory_read_", "all", query="?wait=60").texts[0])
    assert [(one["guid"], one["content"]) for one in listed] == [(guid, text)]
    assert web_system.system.contents(uid) == [text]
    assert web_system.webhook(uid, "shows_", "all", query="?wait=60").texts == [f"{text}\n---\n"]
    found = web_system.webhook(uid, "memory_search_", {"text": text}, query="?wait=60")
    assert found.status == 200 and not found.json.get("reason", "").startswith(
        "the message became a dead letter"
    )
    assert web_system.webhook(uid, "memory_delete_", guid, query="?wait=60").texts == [
        '{"deleted":1}'
    ]


@pytest.mark.parametrize("text", ALL)
def test_a_hostile_text_is_stored_shown_and_found_unchanged(
    web_system: WebSystem, uid: str, text: str
) -> None:
    assert_kept(web_system, uid, text)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some_text)
@example("\x00")
@example(" x ")
@example("\ufeffx")
def test_any_text_is_stored_shown_and_found_unchanged(
    web_system: WebSystem, uid: str, text: str
) -> None:
    if text.strip():
        assert_kept(web_system, uid, text)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.from_regex(r"[a-z]{4,8}", fullmatch=True), st.sampled_from(ALL))
def test_a_word_among_hostile_texts_is_found(
    web_system: WebSystem, words: str, word: str, around: str
) -> None:
    guid = write(web_system, words, f"{around} {word}q {around}")

    found = json.loads(
        web_system.webhook(words, "memory_search_", f"{word}q", query="?wait=60").texts[0]
    )

    assert guid in [one["guid"] for one in found]


@pytest.mark.parametrize("text", ALL)
def test_every_field_of_an_envelope_is_published_unchanged(
    web_system: WebSystem, text: str
) -> None:
    uid = web_system.deploy()
    part = {"text": "/read", "username": text, "type": "text/plain", "more": text}

    answer = web_system.say(uid, {"from": text, "id": text, "args": [part]}, query="?wait=60")

    assert answer.status == 200
    (said, *_) = web_system.system.client.log(uid)
    assert (said.sender, said.envelope["id"], said.envelope["args"]) == (text, text, [part])


@pytest.mark.parametrize("text", ALL)
def test_a_hostile_name_in_a_path_or_header_is_refused_or_not_found(
    web_system: WebSystem, uid: str, text: str
) -> None:
    quoted = "".join(f"%{byte:02X}" for byte in text.encode())

    paths = [
        f"/webhooks/{quoted}/x",
        f"/webhooks/{uid}/{quoted}",
        f"/v1/pipelines/{quoted}",
        f"/api/v1/pd/webhook/{quoted}/x/y",
        f"/v1/pipelines/{uid}/swarms/{quoted}/messages",
    ]

    assert {ask(web_system.url, "POST", path, "x").status for path in paths} <= {400, 401, 404, 405}
    assert ask(
        web_system.url, "GET", f"/v1/pipelines/{uid}/swarms/chat/messages?cursor={quoted}"
    ).status in (400, 404)


@pytest.mark.parametrize("text", ALL)
def test_a_hostile_bundle_is_refused_or_stays_within_the_root(
    web_system: WebSystem, text: str, record_figures: RecordFigures
) -> None:
    before = files(web_system)
    writer = make_agent(
        "writer", "memory_write", {"memory_id": f"instances/${{pipeline_uid}}/{text}"}
    )
    named: list[Json] = [
        make_bundle(make_uid(), writer),
        make_bundle(text),
        make_bundle(make_uid(), name=text),
        make_bundle(make_uid(), make_agent(text, "memory_write", {"memory_id": "instances/a/b"})),
    ]

    answers = [web_system.post("/v1/pipelines", bundle) for bundle in named]

    assert {answer.status for answer in answers} <= {201, 422}
    for answer, bundle in zip(answers, named, strict=True):
        if answer.status == 201:
            web_system.system.client.await_served(answer.json["pipeline_uid"])
            web_system.say(bundle["pipeline_uid"], "hello", query="?wait=60")
            ask(web_system.url, "DELETE", f"/v1/pipelines/{bundle['pipeline_uid']}")
    assert all(file.is_relative_to(web_system.system.root) for file in files(web_system) - before)


def files(web_system: WebSystem) -> set[Path]:
    """Return all files next to the memory root, except those of the server and the logs."""
    system = web_system.system.folder
    return {
        path.resolve()
        for path in system.rglob("*")
        if path.is_file() and "bus" not in path.relative_to(system).parts and path.suffix != ".log"
    }


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_no_line_of_the_log_can_be_forged(log_format: str) -> None:
    with Program() as program:
        program.environment |= {"MEMRELAY_LOG__FORMAT": log_format, "MEMRELAY_LOG__LEVEL": "debug"}
        program.up()
        url = re.search(r"http://127.0.0.1:\d+", program.output)
        assert url is not None
        client, uid = program.client(), re.search(r"memory_test \((\w+)\)", program.output)
        assert uid is not None
        for text in LOGS:
            ident = client.enter_raw(
                uid[1], text.encode(), swarm=text
            )  # dead letters, whose reason is logged
            client.await_done(uid[1], ident)
            client.redis.publish(swarm_of(uid[1], "chat"), text)
            ask(url[0], "GET", "/" + "".join(f"%{byte:02X}" for byte in text.encode()))
        program.end()

        said = program.output

    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e]", said)
    assert not [
        line
        for line in said.splitlines()
        if line.lstrip().startswith(("2026-11-22T05:00:00Z", '{"event": "forged'))
    ]
