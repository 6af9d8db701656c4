"""The digest under which the result of a deferred call is kept."""

from dataclasses import replace

import orjson

from memrelay.blocks.contract import AsyncBlock
from memrelay.bus.codec import encode_kept
from memrelay.bus.message import new_message
from memrelay.memory.engine.inbox import Pending
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.worker.deferred_calls.stored import make_request_digest
from tests.support.bundles import make_agent, make_bundle
from tests.support.deferred_calls import UrlArgs, fetches

ASKING = make_agent("bot", "http_request", {"url": "https://example.org"}, senders="User")
SUBSCRIBER = Plan(check(make_bundle("p", ASKING)).accepted()).subscriber("bot_")
assert SUBSCRIBER is not None


def make_pending(request: object, text: str = "tea", order: str = "", trace: str = "") -> Pending:
    data = encode_kept(new_message("User", "me", text, username="User", now_ms=1), trace)
    packed = orjson.dumps({"order": order, "request": request})
    return Pending("p/1-0.1+0", "p", "h", "bot_", "chat", 0, data, "1-0", "", 0, request=packed)


def test_a_request_counts_with_its_block_and_without_its_order_and_message() -> None:
    def digest(pending: Pending) -> bytes:
        return make_request_digest(pending, SUBSCRIBER)

    first = digest(make_pending({"a": 1, "b": 2}))
    assert first == digest(make_pending({"b": 2, "a": 1}, "coffee", "another"))
    assert first != digest(make_pending({"a": 2, "b": 2}))
    assert first != make_request_digest(
        make_pending({"a": 1, "b": 2}), replace(SUBSCRIBER, block="webhook_send")
    )


def test_the_message_and_the_arguments_of_an_async_block_count() -> None:
    def digest(pending: Pending, url: str = "https://a") -> bytes:
        subscriber = replace(SUBSCRIBER, executor=AsyncBlock(fetches), args=UrlArgs(url=url))
        return make_request_digest(pending, subscriber)

    first = digest(make_pending(None))
    assert first == digest(make_pending(None, trace="00-1-2-01"))
    assert first != digest(make_pending(None, "coffee"))
    assert first != digest(make_pending(None), "https://b")
