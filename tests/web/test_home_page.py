"""The home page: latest memories, what needs a person, and first steps that tick themselves."""

import re
from collections.abc import Iterator

import pytest

from memrelay.web.console.pages.home import MAX_TROUBLED, _list_needs
from tests.support.bundles import Json, make_agent, make_commands
from tests.support.figures import make_row
from tests.support.http import Answer, ask
from tests.support.keys import make_key
from tests.support.pages import text_of
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

STEP = re.compile(r'<li class="done">.*?</span> (?:<a[^>]*>|<strong>)([^<]+)', re.DOTALL)


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


def wait_for_text(web_system: WebSystem, path: str, text: bytes) -> Answer:
    """Return a page once it has a text."""

    def find() -> Answer | None:
        page = web_system.get(path)
        return page if text in page.body else None

    page = wait_for(find, f"{path} shows {text!r}")
    assert page is not None
    return page


def list_done(page: Answer) -> list[str]:
    return STEP.findall(page.body.decode())


def test_first_steps_tick_themselves() -> None:
    with WebSystem() as web_system:
        assert list_done(web_system.get("/")) == []
        assert b"<details open" in web_system.get("/").body

        uid = web_system.deploy(*make_commands())
        web_system.say(uid, {"text": "/write tea"}, query="?wait=60")

        wait_for(
            lambda: list_done(web_system.get("/")) == ["Make a pipeline", "Send a message"],
            "two steps are done",
        )
        make_key(web_system.system.root)
        wait_for(lambda: web_system.get("/").status == 303, "a key is required")


def test_the_latest_memories_are_linked(web_system: WebSystem) -> None:
    uid = web_system.deploy(*make_commands(), pipeline_name="tea")
    web_system.say(uid, {"text": "/write Ada drinks <b>green</b> tea"}, query="?wait=60")

    page = wait_for_text(web_system, "/fragments/latest", b"green")
    again = web_system.get("/fragments/latest", If_None_Match=page.headers["etag"])

    assert f'href="/pipelines/{uid}/memory/' in page.body.decode()
    assert b"<b>green" not in page.body
    assert again.status in (200, 304)
    assert "Ada drinks" in text_of(wait_for_text(web_system, "/", b"green"))


def test_dead_letters_need_a_person(web_system: WebSystem) -> None:
    uid = web_system.deploy(make_agent("endless", "add_1", on="loop", to="loop"))
    web_system.say(uid, {"text": "1"}, swarm="loop")

    page = wait_for_text(web_system, "/fragments/home", b"1 dead letter:")

    assert f'href="/dead-letters?pipeline={uid}"' in page.body.decode()


def test_a_key_without_deploy_has_no_button() -> None:
    with WebSystem(worker=False) as web_system:
        mine, other = web_system.deploy_unserved(), web_system.deploy_unserved()
        root = web_system.system.root
        reader = make_key(root, "read", pipelines=(mine,))
        deployer = make_key(root, "read", "deploy", pipelines=(mine,))
        wait_for(
            lambda: mine in ask(web_system.url, "GET", "/", b"", deployer.headers).body.decode(),
            "the pipeline is listed",
        )

        for path in ("/", "/pipelines", "/fragments/home"):
            seen = ask(web_system.url, "GET", path, b"", reader.headers)
            own = ask(web_system.url, "GET", path, b"", deployer.headers)
            assert b"New pipeline" not in seen.body and other not in seen.body.decode()
            assert b"New pipeline" in own.body, (path, own.status, text_of(own)[:600])
            assert mine in own.body.decode(), path


def make_needy(**figures: object) -> Json:
    none = {"paused": "", "dead_letters": 0, "vectors_fault": "", "erasure_fault": "", "name": "n"}
    return make_row("u") | none | figures


def test_each_trouble_is_listed_with_its_page() -> None:
    trouble = {"id": "e/1", "url": "https://x", "disabled": "", "is_paused": False}
    deliveries = {"trouble": [trouble | {"last_answer": "500"}, trouble | {"is_paused": True}]}
    rows = [
        make_needy(paused="the disk is full; make room"),
        make_needy(owner=None),
        make_needy(deliveries=deliveries),
        make_needy(vectors_fault="no model"),
    ]

    needs = list(_list_needs(rows, 1, {"disk_free_bytes": 1 << 20}, None))

    assert [need.url for need in needs] == [
        "/status",
        "/pipelines/u",
        "/pipelines/u",
        "/pipelines/u/endpoints/e%2F1",
        "/status",
    ]
    assert needs[0].text.startswith("1.0 MiB: low")
    assert "Fix: make room" in needs[1].text


def test_many_troubles_are_bounded() -> None:
    needs = list(_list_needs([make_needy(dead_letters=1)] * 50, 1, None, None))

    assert len(needs) == MAX_TROUBLED + 1 and needs[-1].text == str(50 - MAX_TROUBLED)
