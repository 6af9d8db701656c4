"""The operations from Python over HTTP."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from memrelay.web.client import Relay, RelayError, connect
from tests.support.keys import make_key
from tests.support.served import Served
from tests.support.waiting import wait_for


def with_relay(served: Served, work: Callable[[Relay], Awaitable[Any]], key: str = "") -> Any:
    async def whole() -> Any:
        async with connect(served.url, key) as relay:
            return await work(relay)

    return asyncio.run(whole())


def test_the_life_of_a_record(served: Served) -> None:
    uid = served.deploy()

    async def live(relay: Relay) -> None:
        made = await relay.records.create(uid, "tea", tags=["a", "b"], idempotency_key="k")
        assert await relay.records.create(uid, "tea", tags=["a", "b"], idempotency_key="k") == made
        with pytest.raises(RelayError, match="a key of its own") as refused:
            await relay.records.create(uid, "coffee", idempotency_key="k")
        assert refused.value.status == 422
        with pytest.raises(RelayError, match="Idempotency-Key is empty") as empty:
            await relay.records.create(uid, "coffee", idempotency_key="")
        assert empty.value.status == 400
        changed = await relay.records.update(
            uid, made.guid, content="coffee", if_version=[made.version]
        )
        assert (changed.content, changed.tags) == ("coffee", ("a", "b"))
        assert await relay.records.get(uid, made.guid) == changed
        assert (await relay.records.append(uid, "x", kind="log")).created
        page = await relay.records.list(uid, tags=["a", "b"], order="desc", limit=1)
        assert (page.items, page.total, page.next_cursor) == ((changed,), 1, None)
        assert [hit.record for hit in (await relay.records.search(uid, "coffee")).items] == [
            changed
        ]
        wanted = {"tags": {"contains": "a"}, "data.x": {"exists": False}}
        assert (await relay.records.list(uid, filter=wanted)).items == (changed,)
        assert (await relay.records.search(uid, "coffee", filter={"not": wanted})).items == ()
        assert await relay.records.delete(uid, made.guid, reason="no more") is None
        assert (await relay.records.list(uid, deleted=True)).items == (changed,)
        assert (await relay.records.restore(uid, made.guid)).content == "coffee"
        history = await relay.records.history(uid, made.guid, limit=3)
        assert [(one.number, one.change, one.reason) for one in history.items] == [
            (4, None, None),
            (3, "restore", None),
            (2, "delete", "no more"),
        ]

    with_relay(served, live)


def test_a_refusal_is_told_with_all_that_is_wrong(served: Served) -> None:
    uid = served.deploy()

    async def fail(relay: Relay) -> list[RelayError]:
        calls = [
            relay.records.get(uid, "a/../b?c#d"),
            relay.records.list("ghost"),
            relay.records.list(uid, limit=0, order="up"),
        ]
        return [
            error
            for error in await asyncio.gather(*calls, return_exceptions=True)
            if isinstance(error, RelayError)
        ]

    missing, ghost, wrong = with_relay(served, fail)

    assert (missing.status, ghost.status, wrong.status) == (404, 404, 422)
    assert "'a/../b?c#d'" in missing.detail
    assert [fault["pointer"] for fault in wrong.faults] == ["/limit", "/order"]


def test_what_an_operation_does_not_take_is_a_type_error(served: Served) -> None:
    async def misspell(relay: Relay) -> None:
        for given, named in (
            (("x",), {"contnt": "y"}),
            (("x",), {"content": "y"}),
            (("x",) * 99, {}),
            ((), {}),
        ):
            with pytest.raises(TypeError, match=r"records\.create takes content"):
                await relay.records.create("uid", *given, **named)
        with pytest.raises(AttributeError, match="it has append, create"):
            relay.records.creat  # noqa: B018  # the access itself raises

    with_relay(served, misspell)


def test_a_server_that_is_not_there_is_told() -> None:
    async def whole() -> None:
        async with connect("http://127.0.0.1:9") as relay:
            await relay.records.list("uid")

    with pytest.raises(RelayError, match="does not answer") as told:
        asyncio.run(whole())
    assert told.value.status == 0


@pytest.mark.parametrize("url", ["127.0.0.1:8765", "localhost", "", "http://", "ftp://localhost"])
def test_what_is_no_address_is_told_at_once(url: str) -> None:
    with pytest.raises(ValueError, match=r"write it like http://127\.0\.0\.1:8765"):
        connect(url)


def test_a_key_is_sent(keyed: Served) -> None:
    uid = keyed.deploy()
    key = make_key(keyed.house.root, "read", "write", pipelines=(uid,))
    wait_for(lambda: keyed.get("/v1/pipelines", **key.headers).status == 200, "the key is known")

    assert with_relay(keyed, lambda relay: relay.records.list(uid), key.text).total == 0
    guid = with_relay(keyed, lambda relay: relay.records.create(uid, "tea"), key.text).guid
    with_relay(keyed, lambda relay: relay.records.update(uid, guid, content="coffee"), key.text)
    assert (
        with_relay(keyed, lambda relay: relay.records.history(uid, guid), key.text).items[1].actor
        == "test"
    )
    with pytest.raises(RelayError) as told:
        with_relay(keyed, lambda relay: relay.records.list(uid))
    assert told.value.status == 401
