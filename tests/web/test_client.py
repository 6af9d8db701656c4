"""The clients over HTTP: asynchronous and blocking."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from memrelay import BlockingClient, Client, connect, connect_sync
from memrelay.errors import RelayError
from tests.support.bundles import make_bundle, make_uid
from tests.support.keys import make_key
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem


def with_client(
    web_system: WebSystem, work: Callable[[Client], Awaitable[Any]], key: str = ""
) -> Any:
    async def whole() -> Any:
        async with connect(web_system.url, key) as client:
            return await work(client)

    return asyncio.run(whole())


def test_the_life_of_a_record(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    async def live(client: Client) -> None:
        made = await client.records.create(uid, "tea", tags=["a", "b"], idempotency_key="k")
        assert await client.records.create(uid, "tea", tags=["a", "b"], idempotency_key="k") == made
        with pytest.raises(RelayError, match="a key of its own") as refused:
            await client.records.create(uid, "coffee", idempotency_key="k")
        assert refused.value.status == 422
        with pytest.raises(RelayError, match="Idempotency-Key is empty") as empty:
            await client.records.create(uid, "coffee", idempotency_key="")
        assert empty.value.status == 400
        changed = await client.records.update(
            uid, made.guid, content="coffee", if_version=[made.version]
        )
        assert (changed.content, changed.tags) == ("coffee", ("a", "b"))
        assert await client.records.get(uid, made.guid) == changed
        assert (await client.records.append(uid, "x", kind="log")).created
        page = await client.records.list(uid, tags=["a", "b"], order="desc", limit=1)
        assert (page.items, page.total, page.next_cursor) == ((changed,), 1, None)
        assert [hit.record for hit in (await client.records.search(uid, "coffee")).items] == [
            changed
        ]
        wanted = {"tags": {"contains": "a"}, "data.x": {"exists": False}}
        assert (await client.records.list(uid, filter=wanted)).items == (changed,)
        assert (await client.records.search(uid, "coffee", filter={"not": wanted})).items == ()
        await client.records.delete(uid, made.guid, reason="no more")
        assert (await client.records.list(uid, deleted=True)).items == (changed,)
        assert (await client.records.restore(uid, made.guid)).content == "coffee"
        history = await client.records.history(uid, made.guid, limit=3)
        assert [(one.number, one.change, one.reason) for one in history.items] == [
            (4, None, None),
            (3, "restore", None),
            (2, "delete", "no more"),
        ]

    with_client(web_system, live)


def test_a_refusal_lists_every_fault(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    async def fail(client: Client) -> list[RelayError]:
        calls = [
            client.records.get(uid, "a/../b?c#d"),
            client.records.list("ghost"),
            client.records.list(uid, limit=0, order="up"),  # type: ignore[arg-type]
        ]
        return [
            error
            for error in await asyncio.gather(*calls, return_exceptions=True)
            if isinstance(error, RelayError)
        ]

    missing, ghost, wrong = with_client(web_system, fail)

    assert (missing.status, ghost.status, wrong.status) == (404, 404, 422)
    assert "'a/../b?c#d'" in missing.detail
    assert [fault["pointer"] for fault in wrong.faults] == ["/limit", "/order"]


def test_an_invalid_definition_shows_all_its_errors(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    definition = {"label": "x", "retrieval": {"pipeline": [{"type": "formt"}]}}

    async def create(client: Client) -> RelayError:
        with pytest.raises(RelayError) as caught:
            await client.recipes.create(uid, definition)
        return caught.value

    refused = with_client(web_system, create)

    assert (refused.status, str(refused)) == (422, "the definition has 2 errors")
    assert refused.__notes__ == [
        "/id: id is missing",
        '/retrieval/pipeline/0/type: unknown step type "formt" (did you mean "format"?)',
    ]


def test_an_unknown_or_missing_argument_is_a_type_error(web_system: WebSystem) -> None:
    async def misspell(client: Client) -> None:
        create: Any = client.records.create
        for given, named in (
            (("x",), {"contnt": "y"}),
            (("x",), {"content": "y"}),
            (("x",) * 99, {}),
            ((), {}),
        ):
            with pytest.raises(TypeError, match=r"create\(\)"):
                await create("uid", *given, **named)
        with pytest.raises(AttributeError, match="'creat'"):
            client.records.creat  # type: ignore[attr-defined]  # noqa: B018

    with_client(web_system, misspell)


def test_say_returns_the_results(web_system: WebSystem) -> None:
    uid = web_system.deploy()

    async def converse(client: Client) -> None:
        (written,) = await client.say(uid, "/write The meeting is at 3pm")
        assert (await client.records.list(uid)).items[0].guid in written.text
        assert await client.say(uid, "nothing to do", idempotency_key="k") == []
        with pytest.raises(RelayError, match="no swarm 'lobby'") as missing:
            await client.say(uid, "hello", swarm="lobby")
        assert missing.value.status == 404

    with_client(web_system, converse)


def test_deploy_creates_and_replaces_a_pipeline(web_system: WebSystem) -> None:
    bundle = make_bundle(make_uid())

    async def deploy(client: Client) -> None:
        first = await client.deploy(bundle)
        renamed = bundle | {"pipeline_name": "renamed"}
        second = await client.deploy(renamed, uid=first.uid, if_match=first.hash)
        assert (second.uid, second.name, second.version) == (first.uid, "renamed", 2)
        with pytest.raises(RelayError) as exists:
            await client.deploy(bundle)
        with pytest.raises(RelayError) as changed:
            await client.deploy(bundle, uid=first.uid, if_match=first.hash)
        with pytest.raises(RelayError) as invalid:
            await client.deploy(b'{"agents": 3}')
        assert (exists.value.status, changed.value.status, invalid.value.status) == (409, 412, 422)
        assert invalid.value.faults[0]["pointer"] == "/agents"

    with_client(web_system, deploy)


def test_listen_yields_old_messages_after_the_cursor_and_then_new_ones(
    web_system: WebSystem,
) -> None:
    uid = web_system.deploy()

    async def follow(client: Client) -> None:
        await client.say(uid, "first")
        messages = client.listen(uid, after="0-0")
        first = await anext(messages)
        later = asyncio.create_task(anext(messages))
        await client.say(uid, "second")
        second = await later
        await messages.aclose()
        assert [first.message.text, second.message.text] == ["first", "second"]
        resumed = client.listen(uid, after=first.cursor)
        assert (await anext(resumed)).mid == second.mid
        await resumed.aclose()
        with pytest.raises(RelayError) as refused:
            await anext(client.listen("ghost"))
        assert refused.value.status == 404

    with_client(web_system, follow)


def test_the_blocking_client_has_the_same_methods(web_system: WebSystem) -> None:
    with connect_sync(web_system.url) as client:
        uid = client.deploy(make_bundle(make_uid())).uid
        assert '"guid"' in client.say(uid, "/write tea")[0].text
        made = client.records.create(uid, "coffee", idempotency_key="k")
        assert client.records.get(uid, made.guid) == made
        memory = client.memories.create(uid, "drinks")
        assert client.entries.write(uid, memory.id, "Ada likes tea").action == "created"
        assert client.knowledge.search(uid, "tea").results[0].content == "Ada likes tea"
        messages = client.listen(uid, after="0-0")
        assert next(messages).message.text == "/write tea"
        with pytest.raises(RelayError, match="no record has the guid"):
            client.records.get(uid, "nobody")
    with pytest.raises(RuntimeError, match="the client is closed"):
        client.records.list(uid)


def test_closing_the_blocking_client_again_has_no_effect() -> None:
    client = BlockingClient("http://127.0.0.1:9")
    client.close()
    client.close()


def test_a_missing_server_is_an_error_with_status_0() -> None:
    async def whole() -> None:
        async with connect("http://127.0.0.1:9") as client:
            await client.records.list("uid")

    with pytest.raises(RelayError, match="does not answer") as refused:
        asyncio.run(whole())
    assert refused.value.status == 0


@pytest.mark.parametrize("url", ["127.0.0.1:8765", "localhost", "", "http://", "ftp://localhost"])
def test_an_invalid_url_is_refused_at_once(url: str) -> None:
    with pytest.raises(ValueError, match=r"write it like http://127\.0\.0\.1:8765"):
        connect(url)
    with pytest.raises(ValueError, match="is not the address of a server"):
        connect_sync(url)


def test_a_key_is_sent(keyed: WebSystem) -> None:
    uid = keyed.deploy()
    key = make_key(keyed.system.root, "read", "write", pipelines=(uid,))
    wait_for(lambda: keyed.get("/v1/pipelines", **key.headers).status == 200, "the key is known")

    assert with_client(keyed, lambda client: client.records.list(uid), key.text).total == 0
    guid = with_client(keyed, lambda client: client.records.create(uid, "tea"), key.text).guid
    with_client(keyed, lambda client: client.records.update(uid, guid, content="coffee"), key.text)
    assert (
        with_client(keyed, lambda client: client.records.history(uid, guid), key.text)
        .items[1]
        .actor
        == "test"
    )
    with pytest.raises(RelayError) as refused:
        with_client(keyed, lambda client: client.records.list(uid))
    assert refused.value.status == 401
