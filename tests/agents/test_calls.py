"""Operations called in one way over an embedded store, over HTTP and from a deferred call."""

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from memrelay import connect, connect_sync, open_store
from memrelay.agents.calls import make_calls
from memrelay.errors import Refused, RelayError
from tests.support.web_system import WebSystem

CREATE = ("records.create", {"content": "tea", "tags": ["a"]})


def test_an_embedded_store_answers_with_json_values(tmp_path: Path) -> None:
    with open_store(tmp_path / "a.db") as store:
        calls = make_calls(store, store="ignored")
        made = calls.run(*CREATE)
        assert (made["content"], made["tags"]) == ("tea", ["a"])
        assert asyncio.run(calls.arun("records.get", {"guid": made["guid"]})) == made
        with pytest.raises(Refused, match="unknown operation"):
            calls.run("records.no", {})


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as web_system:
        yield web_system


def test_the_clients_answer_with_json_values(web_system: WebSystem) -> None:
    with connect_sync(web_system.url) as client:
        with pytest.raises(Refused, match="has 0 pipelines; give the uid or name of one"):
            client.operate(*CREATE)
        uid = web_system.deploy()
        assert client.operate(*CREATE)["content"] == "tea"

    async def over_http() -> Any:
        async with connect(web_system.url) as client:
            calls = make_calls(client, uid=uid)
            with pytest.raises(TypeError, match="client is async"):
                calls.run(*CREATE)
            assert await calls.arun(*CREATE, key="k") == await calls.arun(*CREATE, key="k")
            return await calls.arun("records.list", {"tags": ["a"]})

    page = asyncio.run(over_http())
    with connect_sync(web_system.url) as client:
        calls = make_calls(client)
        assert calls.run("records.list", {"tags": ["a"]}) == page
        assert [one["content"] for one in page["items"]] == ["tea", "tea"]
        with pytest.raises(RelayError, match="has 1 fault"):
            asyncio.run(calls.arun("records.list", {"limit": 0}))


class DeferredCall:
    async def operate(
        self, name: str, given: Mapping[str, Any], *, store: str = "", key: str = ""
    ) -> Any:
        return [name, dict(given), store, key]


def test_a_deferred_call_gets_the_store_and_the_key() -> None:
    calls = make_calls(DeferredCall(), store="notes")
    assert asyncio.run(calls.arun("a.b", {"x": 1}, key="k")) == ["a.b", {"x": 1}, "notes", "k"]
    with pytest.raises(TypeError, match="leave `uid` empty"):
        make_calls(DeferredCall(), uid="u")
    with pytest.raises(TypeError, match="str cannot call operations; give the store of"):
        make_calls("http://127.0.0.1")
