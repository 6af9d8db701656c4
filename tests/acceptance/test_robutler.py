"""The acceptance statements of Robutler's memory stores, over HTTP against a running product.

Each statement starts with agents of its own, so that their stores are empty.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import orjson
import pytest

from tests.support.bundles import make_bundle, make_uid
from tests.support.jwts import AUDIENCE, ISSUER, KeyPair, write_key_set
from tests.support.robutler import Agent, put_many
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

ISSUER_KEY = KeyPair("one")
NUMBERS = count(1)
UID = make_uid()


@pytest.fixture(scope="module")
def web_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebSystem]:
    file = tmp_path_factory.mktemp("jwks") / "keys.json"
    write_key_set(file, ISSUER_KEY)
    issuer = {"issuer": ISSUER, "audience": AUDIENCE, "jwks": f"file:{file}", "pipeline": UID}
    with WebSystem(WEB__JWT=orjson.dumps([issuer]).decode(), WEB__RATE="0") as web_system:
        web_system.system.deploy(make_bundle(UID))
        yield web_system
        assert not [event for event in web_system.web.events if event["event"] == "request_failed"]


@pytest.fixture
def agents(web_system: WebSystem) -> list[Agent]:
    """Three agents with empty stores."""
    number = next(NUMBERS)
    return [Agent(web_system.url, f"a{place}-{number}") for place in (1, 2, 3)]


@pytest.fixture
def a1(agents: list[Agent]) -> Agent:
    return agents[0]


@pytest.mark.parametrize("value", [{"x": [1, None, "é"]}, 0, False, None, ""])
def test_01_a_value_is_returned_as_it_was_put(a1: Agent, value: Any) -> None:
    put, got, none = a1.put("n", value), a1.get("n"), a1.get("none")

    assert (put.status, got.status, none.status) == (200, 200, 404)
    assert got.json["value"] == value and type(got.json["value"]) is type(value)


def test_02_the_level_of_a_grant_decides(agents: list[Agent]) -> None:
    a1, a2, _ = agents
    a1.put("k", "green tea")

    def statuses() -> list[int]:
        put = a2.put("k", "black tea", store=a1.id)
        return [a2.get("k", store=a1.id).status, a2.browse(store=a1.id).status, put.status]

    assert statuses() == [403, 403, 403] and a2.search("tea", store=a1.id) == []
    assert a1.share(a2.id, "search").json == {"success": True}
    assert statuses() == [403, 403, 403] and a2.search("tea") == ["k"]
    assert a1.share(a2.id).status == 200
    assert statuses() == [200, 200, 403]
    assert a1.share(a2.id, "readwrite").status == 200
    assert statuses() == [200, 200, 200]


def test_03_the_tool_creates_an_entry(a1: Agent) -> None:
    created = a1.tool(command="create", path="/memories/notes.md", content="hello world")

    assert created == "Created /memories/notes.md"
    assert a1.get("notes").json["value"] == "hello world"


def test_04_an_edit_is_literal_and_needs_one_match(a1: Agent) -> None:
    edit = {"command": "edit", "path": "/memories/notes.md"}
    a1.tool(command="create", path="/memories/notes.md", content="hello world")

    edited = a1.tool(**edit, old_str="hello", new_str="$&")
    a1.put("notes", "a a a")
    error = a1.fail(**edit, old_str="a", new_str="b")

    assert edited == "Edited /memories/notes.md\n  - …[hello] world…\n  + …[$&] world…"
    assert "matches 3 times" in error and a1.get("notes").json["value"] == "a a a"


def test_05_the_generations_of_the_tool_share_entries(a1: Agent) -> None:
    assert a1.tool(action="set", key="k", value=1) == "OK"
    assert a1.tool(command="view", key="k")["value"] == 1
    assert a1.tool(command="view", path="/memories/k")["value"] == 1
    assert a1.tool(action="get", key="x") is None


def test_06_an_entry_expires(a1: Agent) -> None:
    assert a1.put("k", "green tea", ttl=2).status == 200
    assert a1.get("k").status == 200

    wait_for(lambda: a1.get("k").status == 404, "the entry expires", 6)

    assert a1.browse().json["entries"] == [] and a1.search("tea") == []


def test_07_an_internal_entry_is_found_by_its_key_only(a1: Agent) -> None:
    a1.put("k", "green tea", inContext=False)

    assert a1.get("k").json["value"] == "green tea"
    assert a1.get("k", inContext="true").status == 404
    assert a1.browse().json == {"entries": [], "keys": [], "cursor": None}
    assert a1.search("tea") == [] and a1.tool(command="view", key="k") is None
    assert a1.tool(command="view", path="/memories/")["entries"] == []


def test_08_entries_of_others_hide_no_hit(agents: list[Agent]) -> None:
    _, a2, a3 = agents
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: a3.put(f"k{n}", f"green tea {n}"), range(60)))
    a2.put("mine", "black tea")

    answer = a2.browse(action="search", q="tea").json

    assert [(one["key"], one["ownerId"]) for one in answer["results"]] == [("mine", a2.id)]


def test_09_a_key_is_any_text(a1: Agent) -> None:
    paths = {
        "a/b": "a%2Fb",
        "a?b": "a%3Fb",
        "ü ü": "%C3%BC%20%C3%BC",
        "100%": "100%25",
        "..": "%2E%2E",
    }
    for key, path in paths.items():
        put = a1.call("PUT", f"/api/storage/memory/{path}", {"value": key})
        got = a1.call("GET", f"/api/storage/memory/{path}")
        assert (put.status, got.status) == (200, 200), path
        assert (got.json["key"], got.json["value"]) == (key, key)

    assert a1.browse().json["keys"] == sorted(paths)


def test_10_a_rename_keeps_the_entry_and_overwrites_none(a1: Agent) -> None:
    rename = {"command": "rename", "path": "/memories/a.md"}
    a1.tool(command="create", path="/memories/a.md", content="one")
    a1.tool(command="create", path="/memories/b", content="two")

    a1.tool(**rename, new_str="/memories/a")
    error = a1.fail(command="rename", path="/memories/a", new_str="/memories/b")

    assert error and a1.get("a").json["value"] == "one" and a1.get("b").json["value"] == "two"


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "total", [2_000, pytest.param(100_000, marks=pytest.mark.slow)], ids=["2000", "100000"]
)
def test_11_pages_have_each_key_once_in_order(a1: Agent, total: int) -> None:
    keys = [f"k/{number:05}" for number in range(total)]
    put_many(a1, keys)
    # With 2,000 keys, a part of them stands for the 1,000 keys of k/05.
    prefix, size = ("k/05", 1_000) if total == 100_000 else ("k/015", 100)

    pages = list(read_pages(a1, limit=total // 100))
    part = a1.browse(prefix=prefix, limit=1_000).json

    assert [len(page) for page in pages] == [total // 100] * 100
    assert [key for page in pages for key in page] == keys
    assert part["keys"] == [key for key in keys if key.startswith(prefix)]
    assert len(part["keys"]) == size and part["cursor"] is None


def read_pages(agent: Agent, **query: Any) -> Iterator[list[str]]:
    cursor = None
    while cursor != "":
        page = agent.browse(cursor=cursor, **query).json
        yield page["keys"]
        cursor = page["cursor"] or ""


def test_12_the_dialect_of_anthropic(a1: Agent) -> None:
    call = {"dialect": "anthropic", "path": "/memories/t"}
    create = call | {"command": "create", "file_text": "one\ntwo"}

    assert a1.tool(**create) == "File created successfully at: /memories/t"
    assert a1.fail(**create) == "File /memories/t already exists"
    assert a1.tool(**call, command="view") == (
        "Here's the content of /memories/t with line numbers:\n     1\tone\n     2\ttwo"
    )
    assert a1.tool(**call, command="str_replace", old_str="two", new_str="2") == (
        "The memory file has been edited. Here is the snippet showing the change "
        "(with line numbers):\n     1\tone\n     2\t2"
    )
    insert = {"command": "insert", "insert_line": 0, "insert_text": "zero"}
    assert a1.tool(**call, **insert) == "The file /memories/t has been edited."
    assert a1.tool(**call, command="delete") == "Successfully deleted /memories/t"


def test_13_a_jwt_is_one_agent(agents: list[Agent]) -> None:
    a1, a2, _ = agents

    def bearing(agent: Agent, **claims: Any) -> Agent:
        token = ISSUER_KEY.sign(sub=a1.id, **claims)
        return agent._replace(headers={"Authorization": f"Bearer {token}"})

    own = bearing(a1)

    assert (own.put("k", 1).status, own.get("k").status) == (200, 200)
    assert own.get("k", store=a2.id).status == 403
    assert bearing(a2).get("k").status == bearing(a2).put("k", 1).status == 403
    assert bearing(a1, exp=1).get("k").status == 401
