"""Calls with `as_of` read a store as it was: the records, the order and the scores of then."""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pytest

from memrelay import connect, connect_sync
from memrelay.client.read_state import LAST_READ
from memrelay.errors import RelayError
from tests.support.bundles import make_commands
from tests.support.calls import call, call_all, make_call
from tests.support.erasures import await_erasure, files_with
from tests.support.http import ask
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as web_system:
        yield web_system


@pytest.fixture
def uid(web_system: WebSystem) -> str:
    return web_system.deploy(*make_commands())


def read(web_system: WebSystem, uid: str, path: str, as_of: str) -> list[str]:
    sign = "&" if "?" in path else "?"
    answer = web_system.get(f"/v1/pipelines/{uid}/{path}{sign}as_of={quote(as_of)}")
    assert answer.status == 200, answer
    assert answer.headers["memrelay-as-of"].startswith("n:")
    return [item["content"] for item in answer.json["items"]]


def refusal(web_system: WebSystem, path: str, status: int) -> str:
    found, detail = web_system.get(path).problem
    assert found == status
    return detail


def test_lists_and_searches_show_the_state_of_then(web_system: WebSystem, uid: str) -> None:
    records = f"/v1/pipelines/{uid}/records"
    tea = web_system.post(records, {"content": "green tea"}).json["guid"]
    web_system.post(records, {"content": "tea with milk"})
    time.sleep(0.02)
    then = str(time.time_ns() // 1_000_000)
    found = web_system.post(f"{records}/search", {"query": "tea"}).json["items"]
    time.sleep(0.02)
    ask(web_system.url, "DELETE", f"{records}/{tea}")
    web_system.post(records, {"content": "tea and tea"})

    assert read(web_system, uid, "records?order=asc", then) == ["green tea", "tea with milk"]
    assert read(web_system, uid, "records?order=asc", "n:1") == ["green tea"]
    past = web_system.post(f"{records}/search?as_of={then}", {"query": "tea"}).json["items"]
    assert past == found and len(found) == 2
    assert web_system.get(f"{records}/{tea}?as_of={then}").json["content"] == "green tea"
    assert web_system.get(f"{records}/{tea}").status == 404


def test_the_time_of_validity_is_independent_of_as_of(web_system: WebSystem, uid: str) -> None:
    records = f"/v1/pipelines/{uid}/records"
    berlin = {"content": "address is Berlin", "valid_to": "2024-03-01"}
    guid = web_system.post(records, berlin).json["guid"]
    web_system.post(records, {"content": "address is Paris", "valid_from": "2024-03-01"})
    ask(web_system.url, "PATCH", f"{records}/{guid}", {"valid_to": "2024-05-01"})

    april = "records?valid_at=2024-04-01"
    assert read(web_system, uid, april, "n:2") == ["address is Paris"]
    assert read(web_system, uid, april, "n:3") == ["address is Berlin", "address is Paris"]

    def first(as_of: str, **given: str) -> str:
        answer = ask(
            web_system.url,
            "POST",
            f"{records}/search?as_of={as_of}",
            {"query": "address"} | given,
        )
        return str(answer.json["items"][0]["record"]["content"])

    assert first("n:2") == first("n:3", valid_at="2024-06-01") == "address is Paris"
    assert first("n:2", valid_at="2024-04-01") == "address is Paris"
    assert first("n:3", valid_at="2024-04-01") == "address is Berlin"


def test_an_erased_record_never_comes_back(web_system: WebSystem, uid: str) -> None:
    records = f"/v1/pipelines/{uid}/records"
    guid = web_system.post(records, {"content": "the secret of Ada"}).json["guid"]
    web_system.post(records, {"content": "tea"})
    assert read(web_system, uid, "records?order=asc", "n:2") == ["the secret of Ada", "tea"]

    call(web_system.system, uid, "records.erase", {"guids": [guid]})
    await_erasure(web_system.system, uid)

    assert read(web_system, uid, "records?order=asc", "n:2") == ["tea"]
    assert files_with(web_system.system, b"secret of ada") == []


def test_what_cannot_be_shown_is_refused_with_the_reason(web_system: WebSystem, uid: str) -> None:
    path = f"/v1/pipelines/{uid}/records"
    web_system.post(path, {"content": "tea"})

    unknown = refusal(web_system, f"{path}?as_of=yesterday", 422)
    assert "RFC 3339" in unknown and "n:1204" in unknown
    assert "the last one is n:1" in refusal(web_system, f"{path}?as_of=n:9", 422)
    other = refusal(web_system, f"/v1/pipelines/{uid}/recipes?as_of=n:1", 400)
    assert "unknown parameter 'as_of'" in other


def test_clients_read_the_past_and_name_its_state(web_system: WebSystem, uid: str) -> None:
    LAST_READ.set(None)  # of this thread, in which other tests have read the past
    with connect_sync(web_system.url) as client:
        assert client.last_read is None
        tea = client.records.create(uid, "green tea")
        client.records.delete(uid, tea.guid)

        found = client.records.list(uid, as_of="n:1").items
        assert [one.content for one in found] == ["green tea"]
        assert client.last_read is not None
        assert (client.last_read.change, client.last_read.incomplete) == (1, 0)
        same = client.operate("records.get", {"guid": tea.guid}, pipeline=uid, as_of="n:1")
        assert same["content"] == "green tea"
        with pytest.raises(RelayError, match="the last one is n:2"):
            client.records.list(uid, as_of="n:9")

    async def read_state() -> int | None:
        async with connect(web_system.url) as client:
            await client.records.list(uid, as_of="n:2")
            return client.last_read and client.last_read.change

    assert asyncio.run(read_state()) == 2


def test_http_answers_202_while_a_state_is_made_and_python_waits(web_system: WebSystem) -> None:
    uid = web_system.deploy(*make_commands())
    client = web_system.system.client
    client.enter_together(uid, [f"/write tea number {n}" for n in range(9_000)])
    client.await_quiet(uid)
    web_system.start_web(WEB__CALL_TIMEOUT_S="1")
    others = [make_call(uid, "records.list", {"limit": 1}, as_of=f"n:{n}") for n in range(2, 8)]
    root = web_system.system.root
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(call_all, web_system.system, *others)
        wait_for(lambda: any(root.glob(".asof-*/*.db")), "the first state is being made")

        pending = web_system.get(f"/v1/pipelines/{uid}/records?limit=1&as_of=n:1")
        with connect_sync(web_system.url) as python:
            found = python.records.list(uid, as_of="n:1")

        assert pending.status == 202
        assert int(pending.headers["retry-after"]) >= 1
        assert "call again" in pending.json["detail"]
        assert found.total == 1
        assert [one["output"]["total"] for one in read.result()] == [2, 3, 4, 5, 6, 7]


def test_no_past_grant_opens_a_store(web_system: WebSystem, uid: str) -> None:
    system = web_system.system
    owner = {"agent": "a1", "store": "a1"}
    then = {"as_of": "n:2"}
    call(system, uid, "items.put", owner | {"key": "plan", "value": "tea"})
    call(system, uid, "items.put", owner | {"key": "code", "value": 7})
    granted = owner | {"grantee": "a2", "level": "read"}
    call(system, uid, "grants.set", granted)
    asked: dict[str, Any] = {"agent": "a2", "store": "a1"}

    def keys() -> list[str]:
        listed: list[str] = call(system, uid, "items.list", asked, **then)["keys"]
        return listed

    def denied(name: str = "items.get") -> bool:
        given = asked | ({"key": "plan"} if name == "items.get" else {})
        (answer,) = call_all(system, make_call(uid, name, given, **then))
        return answer.get("error", {}).get("code") == "denied"

    call(system, uid, "items.put", owner | {"key": "plan", "value": "coffee"})
    got = call(system, uid, "items.get", asked | {"key": "plan"}, **then)
    assert (keys(), got["value"]) == (["code", "plan"], "tea")

    call(system, uid, "items.put", owner | {"key": "code", "value": 7, "in_context": False})
    assert keys() == ["plan"], "internal entries of today are internal in the past too"

    call(system, uid, "grants.remove", owner | {"grantee": "a2"})
    assert denied() and denied("items.list")

    call(system, uid, "grants.set", granted | {"ttl_s": 1})
    assert keys() == ["plan"]
    wait_for(denied, "the grant ends, also for reads of a time when it was in force")

    call(system, uid, "grants.set", granted | {"level": "search"})
    assert denied()
    call(system, uid, "grants.set", granted)
    call(system, uid, "stores.configure", {"agent": "a2", "enabled": False})
    assert denied()
