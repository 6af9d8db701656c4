"""The page Versions as served, and the check of a bundle that is not deployed."""

import ast
import inspect
from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from memrelay.web.console.pages import bundle, record
from tests.support.bundles import Json, make_agent, make_bundle, make_commands, make_uid
from tests.support.http import Answer, ask
from tests.support.keys import await_closed, make_key
from tests.support.pages import deploy_bundle, text_of
from tests.support.web_system import WebSystem

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>'
MAX_PAGE_BYTES = 300_000


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


def deploy(web_system: WebSystem, *names: str) -> str:
    """Deploy a pipeline once for each name."""
    uid = make_uid()
    for name in names:
        deploy_bundle(web_system.url, make_bundle(uid, *make_commands(), name=name))
    return uid


def page_of(web_system: WebSystem, uid: str, query: str = "", **headers: str) -> Answer:
    return web_system.get(f"/pipelines/{uid}/bundle{query}", **headers)


def check(web_system: WebSystem, uid: str, body: bytes | Json) -> Any:
    answer = ask(web_system.url, "POST", f"/v1/pipelines/{uid}/check", body)
    assert answer.status == 200, answer
    return answer.json


def test_a_pipeline_without_earlier_versions(web_system: WebSystem) -> None:
    text = text_of(page_of(web_system, deploy(web_system, "tea")))

    assert "No earlier versions." in text and "Bundle of version 1" in text
    assert '"pipeline_name": "tea"' in text and "Changes" not in text


def test_versions_are_listed_and_compared(web_system: WebSystem) -> None:
    uid = deploy(web_system, "tea", "coffee", "milk")

    latest, first = (
        text_of(page_of(web_system, uid)),
        text_of(page_of(web_system, uid, "?from=1&to=2")),
    )

    assert "3 milk current" in latest and latest.count("Roll back") == 2
    assert "[deleted: coffee ]" in latest and "[added: milk ]" in latest
    assert "[deleted: tea ]" in first and "[added: coffee ]" in first
    same = text_of(page_of(web_system, uid, "?from=2&to=2"))
    assert "The bundle is the same in both versions." in same


@pytest.mark.parametrize(
    ("query", "status"),
    [("?from=9", 404), ("?to=0", 404), ("?from=x", 400), ("?before=-1", 400), ("?to=%C2%B2", 400)],
)
def test_an_invalid_version_is_refused(web_system: WebSystem, query: str, status: int) -> None:
    assert page_of(web_system, deploy(web_system, "tea", "coffee"), query).status == status


def test_a_long_list_has_pages(web_system: WebSystem) -> None:
    uid = deploy(web_system, *(f"tea {number}" for number in range(53)))

    first, rest = page_of(web_system, uid), page_of(web_system, uid, "?before=4")

    assert "Older versions" in text_of(first) and f"{uid}/bundle?before=4" in first.body.decode()
    assert "tea 52" in text_of(first) and "> tea 2<" not in first.body.decode()
    assert all(f"tea {number}" in text_of(rest) for number in range(3))


def test_the_list_is_fetched_again_only_after_a_deploy(web_system: WebSystem) -> None:
    uid = deploy(web_system, "tea")
    rows = f"/pipelines/{uid}/bundle/rows"
    first = web_system.get(rows)
    tag = first.headers["etag"]
    assert web_system.get(rows, If_None_Match=tag).status == 304

    deploy_bundle(web_system.url, make_bundle(uid, *make_commands(), name="coffee"))

    changed = web_system.get(rows, If_None_Match=tag, Cache_Control="no-cache")
    assert changed.status == 200 and "coffee" in text_of(changed)


def test_hostile_names_are_shown_as_text(web_system: WebSystem) -> None:
    page = page_of(web_system, deploy(web_system, HOSTILE, f"{HOSTILE}2"))

    assert b"<script>alert" not in page.body and b"<img src=x" not in page.body
    assert HOSTILE in text_of(page) or "alert(1)" in page.body.decode()


def test_a_huge_bundle_is_shown_in_part(web_system: WebSystem) -> None:
    uid = make_uid()
    notes = [f"note {number} of a long description" for number in range(20_000)]
    for end in ("a", "b"):
        deploy_bundle(
            web_system.url, make_bundle(uid, *make_commands(), description="\n".join([*notes, end]))
        )

    page = page_of(web_system, uid)

    assert len(page.body) <= MAX_PAGE_BYTES
    assert "too long to be edited here" in text_of(page)
    assert "too long to be compared" in text_of(page)


@pytest.mark.parametrize("length", [40_000, 110_000, 900_000])
def test_text_that_html_escapes_does_not_make_the_page_too_long(
    web_system: WebSystem, length: int
) -> None:
    uid = make_uid()
    for end in ("a", "b"):
        deploy_bundle(
            web_system.url, make_bundle(uid, *make_commands(), description="&" * length + end)
        )

    page = page_of(web_system, uid)

    assert page.status == 200 and len(page.body) <= MAX_PAGE_BYTES


def test_no_comparison_runs_on_the_event_loop() -> None:
    for page in (bundle, record):
        calls = [
            ast.unparse(node)
            for node in ast.walk(ast.parse(inspect.getsource(page)))
            if isinstance(node, ast.Call) and "compare_words" in ast.unparse(node)
        ]

        assert len(calls) == 1 and calls[0].startswith("asyncio.to_thread(compare_words, ")


def test_a_check_returns_the_lines_of_all_faults_and_stores_nothing(web_system: WebSystem) -> None:
    uid = deploy(web_system, "tea")
    broken = make_bundle(uid, make_agent("one", "no_such_block"), make_agent("two", "add_one"))
    text = orjson.dumps(broken, option=orjson.OPT_INDENT_2)

    found = check(web_system, uid, text)

    lines = text.decode().split("\n")
    assert not found["valid"] and len(found["faults"]) >= 2
    for fault in found["faults"]:
        part = fault["pointer"].rpartition("/")[2]
        assert part.isdecimal() or f'"{part}"' in lines[fault["line"] - 1], fault
    assert web_system.get(f"/v1/pipelines/{uid}/versions").json["total"] == 1


def test_a_check_of_valid_text_and_of_text_that_is_not_json(web_system: WebSystem) -> None:
    uid = deploy(web_system, "tea")

    good = check(web_system, uid, make_bundle(uid, *make_commands(), name="coffee"))
    bad = check(web_system, uid, b'{\n  "pipeline_name": "x",\n  oops\n}')

    assert good["valid"] and web_system.get(f"/v1/pipelines/{uid}").json["name"] == "tea"
    assert not bad["valid"] and [one["line"] for one in bad["faults"]] == [3]


def test_only_keys_that_may_deploy_have_controls_and_can_check() -> None:
    with WebSystem() as web_system:
        uid = deploy(web_system, "tea", "coffee")
        reader = make_key(web_system.system.root, "read", pipelines=(uid,))
        deployer = make_key(web_system.system.root, "read", "deploy", pipelines=(uid,))
        await_closed(web_system)

        read, full = [
            page_of(web_system, uid, Authorization=f"Bearer {key.text}").body.decode()
            for key in (reader, deployer)
        ]

        assert "Roll back" not in read and 'id="check"' not in read and "readonly" in read
        assert "Roll back" in full and 'id="check"' in full and "readonly" not in full
        path = f"/v1/pipelines/{uid}/check"
        statuses = [
            ask(web_system.url, "POST", path, b"{}", key.headers).status
            for key in (reader, deployer)
        ]
        assert statuses == [403, 200]
