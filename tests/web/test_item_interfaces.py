"""Keyed items over /v1 and from Python: any key, any value, and the identity of the caller."""

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from memrelay import connect, open_store
from memrelay.errors import RelayError
from tests.support.http import Answer, ask
from tests.support.web_system import WebSystem

KEYS = {
    "a/b": "a%2Fb",
    "a?b": "a%3Fb",
    "ü ü": "%C3%BC%20%C3%BC",
    "100%": "100%25",
    "..": "%2E%2E",
    ".": "%2E",
    "{x}": "%7Bx%7D",
    "a//b#c": "a%2F%2Fb%23c",
    "%2F": "%252F",
}
VALUES: list[Any] = [0, False, None, "", "tea", {"x": [1, None, "é"]}, [], 1.5]
CALLER = {"agent": "a1", "store": "a1"}


@pytest.fixture(scope="module")
def uid(web_system: WebSystem) -> str:
    return web_system.deploy()


def put(web_system: WebSystem, path: str, body: dict[str, Any], **headers: str) -> Answer:
    return ask(web_system.url, "PUT", path, body, headers)


@pytest.mark.parametrize("key", KEYS)
def test_any_key_is_a_segment_of_the_path(web_system: WebSystem, uid: str, key: str) -> None:
    path = f"/v1/pipelines/{uid}/items/{KEYS[key]}"

    made = put(web_system, path, CALLER | {"value": key})
    got = web_system.get(f"{path}?agent=a1&store=a1")

    assert made.json["entry"]["key"] == got.json["key"] == got.json["value"] == key
    listed = web_system.get(f"/v1/pipelines/{uid}/items?agent=a1&store=a1&prefix={quote(key)}").json
    assert [entry["key"] for entry in listed["entries"]].count(key) == 1


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_any_json_is_a_value(web_system: WebSystem, uid: str, value: Any) -> None:
    path = f"/v1/pipelines/{uid}/items/any"

    assert put(web_system, path, CALLER | {"value": value}).status == 200
    assert web_system.get(f"{path}?agent=a1&store=a1").json["value"] == value


def test_a_missing_value_or_an_unknown_version_is_refused(web_system: WebSystem, uid: str) -> None:
    path = f"/v1/pipelines/{uid}/items/versioned"
    put(web_system, path, CALLER | {"value": 1})

    missing = put(web_system, path, CALLER)
    stale = put(web_system, path, CALLER | {"value": 2}, if_match='"nothing"')

    assert (missing.status, stale.status) == (422, 412)
    assert [fault["pointer"] for fault in missing.json["faults"]] == ["/value"]


def test_the_client_puts_and_reads_any_key_and_value(web_system: WebSystem, uid: str) -> None:
    async def keep() -> list[Any]:
        async with connect(web_system.url) as client:
            for number, key in enumerate(KEYS):
                value = VALUES[number % len(VALUES)]
                made = await client.items.put(uid, "a2", key, value, agent="a2")
                assert (made.created, made.entry.key) == (True, key)
            with pytest.raises(RelayError) as refused:
                await client.items.get(uid, "a2", "..", agent="a1")
            assert refused.value.status == 403
            return [(await client.items.get(uid, "a2", key, agent="a2")).value for key in KEYS]

    assert asyncio.run(keep()) == [VALUES[number % len(VALUES)] for number in range(len(KEYS))]


def test_an_embedded_store_vouches_for_the_chat_and_the_user(tmp_path: Path) -> None:
    with open_store(tmp_path / "stores.db") as store:
        store.items.put("chat:c", "k", {"a": 1}, agent="a1", chat="chat:c")

        assert store.items.get("chat:c", "k", agent="a2", chat="chat:c").value == {"a": 1}
        assert [one.source for one in store.stores.list(agent="a1", user="u").stores] == [
            "self",
            "user",
        ]
