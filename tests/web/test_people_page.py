"""The page People: the parts of the views of a store, everything about one, and rights."""

from collections.abc import Iterator

import pytest

from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.http import Answer, ask
from tests.support.keys import await_closed, make_key
from tests.support.pages import deploy_bundle, text_of
from tests.support.web_system import WebSystem

VIEWS = [
    {"name": "facts", "per": "owner", "show": {"latest": "key"}},
    {"name": "how many", "per": "owner", "show": "count"},
    {"name": "all", "show": "count"},
]


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as found:
        yield found


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    uid = make_uid()
    store = {"memory_id": f"instances/{uid}/memories", "views": VIEWS}
    deploy_bundle(web_system.url, make_bundle(uid, *make_commands(), stores=[store]))
    for content, owner in (("Rome", "Ada <b>"), ("Paris", "Ada <b>"), ("Oslo", "Ben")):
        record = {"content": content, "owner": owner, "key": "city"}
        assert web_system.post(f"/v1/pipelines/{uid}/records", record).status == 201
    return uid


def show(web_system: WebSystem, uid: str, query: str = "", **headers: str) -> Answer:
    return ask(web_system.url, "GET", f"/pipelines/{uid}/people{query}", None, headers)


def test_the_page_lists_the_people_of_each_view(web_system: WebSystem, uid: str) -> None:
    answer = show(web_system, uid)
    text = text_of(answer)

    assert answer.status == 200
    assert "facts owner" in text and "Ada <b> 2" in text and "Ben 1" in text
    assert b"Ada <b>" not in answer.body and b"of=Ada+%3Cb%3E" in answer.body
    some = text_of(show(web_system, uid, "?beginning=Be"))
    assert "Ben 1" in some and "Ada" not in some


def test_a_person_has_what_each_view_shows(web_system: WebSystem, uid: str) -> None:
    text = text_of(show(web_system, uid, "?of=Ada+%3Cb%3E"))

    assert "Paris" in text and "Rome" not in text and "Oslo" not in text
    assert "how many 2 records" in text
    assert "No view of this store" in text_of(show(web_system, uid, "?of=nobody"))


def test_a_store_without_views_names_the_way_to_declare_them(web_system: WebSystem) -> None:
    uid = make_uid()
    deploy_bundle(web_system.url, make_bundle(uid, *make_commands()))
    assert "views define" in text_of(show(web_system, uid))


def test_the_page_needs_read(web_system: WebSystem, uid: str) -> None:
    reader = make_key(web_system.system.root, "read")
    writer = make_key(web_system.system.root, "write")
    await_closed(web_system)

    headers = {"Authorization": f"Bearer {writer.text}"}
    assert show(web_system, uid, "", **headers).status == 403
    headers = {"Authorization": f"Bearer {reader.text}"}
    assert show(web_system, uid, "", **headers).status == 200
