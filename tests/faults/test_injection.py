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

from tests.faults.conftest import Tell
from tests.support.bundles import Json, make_agent, make_bundle, make_memory, make_uid
from tests.support.client import swarm_of
from tests.support.http import ask
from tests.support.program import Program
from tests.support.served import Served

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
def served() -> Iterator[Served]:
    """One server for all tests."""
    with Served() as served:
        yield served


@pytest.fixture(scope="module")
def uid(served: Served) -> str:
    """Deploy a pipeline that stores webhook texts, finds them by words, and renders them by a
    template.
    """
    return served.deploy(
        make_memory("write", hears="nobody"),
        make_memory("search", hears="nobody"),
        make_memory("read", hears="nobody", alias="shows", output_template=SHOWN),
        make_memory("read", hears="nobody"),
        make_memory("delete", hears="nobody"),
    )


@pytest.fixture(scope="module")
def words(served: Served) -> str:
    """Deploy a pipeline whose records stay."""
    return served.deploy(
        make_memory("write", hears="nobody"), make_memory("search", hears="nobody", limit=1000)
    )


def write(served: Served, uid: str, text: str, **part: str) -> str:
    """Return the GUID of a record."""
    answer = served.webhook(uid, "memory_write_", {"text": text} | part, query="?wait=60")
    return str(json.loads(answer.texts[0])["guid"])


def assert_kept(served: Served, uid: str, text: str) -> None:
    """Check that a text is stored unchanged, listed, rendered by a template, and found by its
    words.
    """
    guid = write(served, uid, text)
    listed = json.loads(served.webhook(uid, "memory_read_", "all", query="?wait=60").texts[0])
    assert [(one["guid"], one["content"]) for one in listed] == [(guid, text)]
    assert served.house.contents(uid) == [text]
    assert served.webhook(uid, "shows_", "all", query="?wait=60").texts == [f"{text}\n---\n"]
    found = served.webhook(uid, "memory_search_", {"text": text}, query="?wait=60")
    assert found.status == 200 and not found.json.get("reason", "").startswith(
        "the message became a dead letter"
    )
    assert served.webhook(uid, "memory_delete_", guid, query="?wait=60").texts == ['{"deleted":1}']


@pytest.mark.parametrize("text", ALL)
def test_a_hostile_text_is_stored_shown_and_found_unchanged(
    served: Served, uid: str, text: str
) -> None:
    assert_kept(served, uid, text)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(some_text)
@example("\x00")
@example(" x ")
@example("\ufeffx")
def test_any_text_is_stored_shown_and_found_unchanged(served: Served, uid: str, text: str) -> None:
    if text.strip():
        assert_kept(served, uid, text)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.from_regex(r"[a-z]{4,8}", fullmatch=True), st.sampled_from(ALL))
def test_a_word_among_hostile_texts_is_found(
    served: Served, words: str, word: str, around: str
) -> None:
    guid = write(served, words, f"{around} {word}q {around}")

    found = json.loads(
        served.webhook(words, "memory_search_", f"{word}q", query="?wait=60").texts[0]
    )

    assert guid in [one["guid"] for one in found]


@pytest.mark.parametrize("text", ALL)
def test_every_field_of_an_envelope_is_published_unchanged(served: Served, text: str) -> None:
    uid = served.deploy()
    part = {"text": "/read", "username": text, "type": "text/plain", "more": text}

    answer = served.say(uid, {"from": text, "id": text, "args": [part]}, query="?wait=60")

    assert answer.status == 200
    (said, *_) = served.house.client.log(uid)
    assert (said.sender, said.envelope["id"], said.envelope["args"]) == (text, text, [part])


@pytest.mark.parametrize("text", ALL)
def test_a_hostile_name_in_a_path_or_header_is_refused_or_not_found(
    served: Served, uid: str, text: str
) -> None:
    quoted = "".join(f"%{byte:02X}" for byte in text.encode())

    paths = [
        f"/webhooks/{quoted}/x",
        f"/webhooks/{uid}/{quoted}",
        f"/v1/pipelines/{quoted}",
        f"/api/v1/pd/webhook/{quoted}/x/y",
        f"/v1/pipelines/{uid}/swarms/{quoted}/messages",
    ]

    assert {ask(served.url, "POST", path, "x").status for path in paths} <= {400, 401, 404, 405}
    assert ask(
        served.url, "GET", f"/v1/pipelines/{uid}/swarms/chat/messages?cursor={quoted}"
    ).status in (400, 404)


@pytest.mark.parametrize("text", ALL)
def test_a_hostile_bundle_is_refused_or_stays_within_the_root(
    served: Served, text: str, tell: Tell
) -> None:
    before = files(served)
    writer = make_agent(
        "writer", "memory_write", {"memory_id": f"instances/${{pipeline_uid}}/{text}"}
    )
    named: list[Json] = [
        make_bundle(make_uid(), writer),
        make_bundle(text),
        make_bundle(make_uid(), name=text),
        make_bundle(make_uid(), make_agent(text, "memory_write", {"memory_id": "instances/a/b"})),
    ]

    answers = [served.post("/v1/pipelines", bundle) for bundle in named]

    assert {answer.status for answer in answers} <= {201, 422}
    for answer, bundle in zip(answers, named, strict=True):
        if answer.status == 201:
            served.house.client.await_served(answer.json["pipeline_uid"])
            served.say(bundle["pipeline_uid"], "hello", query="?wait=60")
            ask(served.url, "DELETE", f"/v1/pipelines/{bundle['pipeline_uid']}")
    assert all(file.is_relative_to(served.house.root) for file in files(served) - before)


def files(served: Served) -> set[Path]:
    """Return all files next to the memory root, except those of the server and the logs."""
    house = served.house.folder
    return {
        path.resolve()
        for path in house.rglob("*")
        if path.is_file() and "bus" not in path.relative_to(house).parts and path.suffix != ".log"
    }


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_no_line_of_the_log_can_be_forged(log_format: str) -> None:
    with Program() as program:
        program.environment |= {"MEMRELAY_LOG__FORMAT": log_format, "MEMRELAY_LOG__LEVEL": "debug"}
        program.up()
        url = re.search(r"http://127.0.0.1:\d+", program.said)
        assert url is not None
        client, uid = program.client(), re.search(r"memory_test \((\w+)\)", program.said)
        assert uid is not None
        for text in LOGS:
            ident = client.enter_raw(
                uid[1], text.encode(), swarm=text
            )  # dead letters, whose reason is logged
            client.await_done(uid[1], ident)
            client.redis.publish(swarm_of(uid[1], "chat"), text)
            ask(url[0], "GET", "/" + "".join(f"%{byte:02X}" for byte in text.encode()))
        program.end()

        said = program.said

    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e]", said)
    assert not [
        line
        for line in said.splitlines()
        if line.lstrip().startswith(("2026-11-22T05:00:00Z", '{"event": "forged'))
    ]
