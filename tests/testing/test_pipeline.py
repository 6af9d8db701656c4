"""test_pipeline runs a pipeline with the worker's code, at a virtual time and with crashes."""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from memrelay import (
    AsyncCall,
    BlockArgs,
    Call,
    DeferredCall,
    Message,
    RunningCall,
    Transient,
    block,
    open_store,
)
from memrelay.blocks import registry
from memrelay.errors import OperationFailed
from memrelay.pipelines.checked import BundleRefused
from memrelay.testing import MessageFailed, NoAnswer, run_block, test_pipeline
from memrelay.testing.crashes import AFTER, BEFORE
from tests.support.bundles import STORE, Json, make_agent, make_bundle
from tests.support.webhook_receiver import WebhookReceiver

MEANING = {"meaning": "a drink"}
STEPS = [*(("before", step) for step in BEFORE), *(("after", step) for step in AFTER)]


@pytest.fixture(autouse=True)
def names() -> Iterator[None]:
    """Remove the blocks that a test declares."""
    yield
    for name, one in list(registry._blocks.items()):
        if one.handle is not None and one.handle.__module__ == __name__:
            del registry._blocks[name]


def texts(messages: list[Message]) -> list[str]:
    return [one.text for one in messages]


def make_echo(**keys: Any) -> Json:
    """Return a bundle with one agent that answers the user with the text."""
    agent = make_agent("echo", "json_map", {"expression": "@"}, senders="User")
    return make_bundle("echo", agent | keys)


def make_writer(**args: Any) -> Json:
    args = {"memory_id": STORE, **args}
    return make_bundle("writer", make_agent("keep", "memory_write", args, senders="User"))


def make_sender(url: str = "https://api.example/words") -> Json:
    """Return a bundle that stores a text in one store, then posts it, then stores the answer."""
    keep = make_agent("keep", "memory_write", {"memory_id": STORE}, senders="User")
    post = make_agent("post", "http_request", {"url": url, "method": "POST"}, senders="User")
    other = {"memory_id": "instances/${pipeline_uid}/answers"}
    return make_bundle(
        "sender", keep, post, make_agent("answers", "memory_write", other, senders="post")
    )


@pytest.mark.parametrize(("when", "step"), STEPS)
def test_a_crash_at_any_step_loses_and_doubles_nothing(when: str, step: str) -> None:
    with test_pipeline(make_sender()) as p:
        p.answer("post_", {"status": 200, "headers": {}, "json": MEANING})
        crash = p.crash_before if when == "before" else p.crash_after
        crash(step)  # type: ignore[arg-type]
        crash(step)  # type: ignore[arg-type]
        p.say("tea")
        p.say("milk")

        assert p.crashes == 2
        assert [one.content for one in p.store().records.list().items] == ["tea", "milk"]
        answers = p.store("answers").records.list().items
        assert [orjson.loads(one.content)["json"] for one in answers] == 2 * [MEANING]
        assert [one.sender for one in p.messages()].count("keep") == 2
        assert [one.sender for one in p.messages()].count("answers") == 2
        assert len(p.requests) == (4 if (when, step) == ("after", "call") else 2)
        assert p.dead_letters == []


def test_a_crash_that_does_not_happen_fails_the_test() -> None:
    missed = r'did not reach the step of crash_after\("call"\)'
    with pytest.raises(AssertionError, match=missed), test_pipeline(make_echo()) as p:
        p.crash_after("call")
        p.say("tea")


def test_the_form_for_an_event_loop_is_the_same() -> None:
    async def converse() -> list[str]:
        async with test_pipeline("memory_test") as p:
            await p.say("/write tea")
            p.crash_before("commit")
            await p.say("/append with milk")
            await p.crash()
            await p.advance("1h")
            (listed,) = await p.say("/read")
            await p.webhook("user", "/write by a webhook")
            return [one["content"] for one in orjson.loads(listed.text)]

    async def mistake() -> None:
        with test_pipeline("memory_test"):
            pass

    assert asyncio.run(converse()) == ["tea", "with milk"]
    with pytest.raises(RuntimeError, match="write `async with"):
        asyncio.run(mistake())


def test_timers_run_at_their_intervals_and_slots() -> None:
    args = {"memory_id": STORE}
    ticks = make_agent("ticks", "template", {"template": "tick"}, senders="x")
    ticks |= {"wf_interval_secs": 600}
    noon = make_agent("noon", "template", {"template": "noon"}, senders="x")
    noon |= {"wf_cron": "0 12 * * *"}
    bundle = make_bundle(
        "timers", ticks, noon, make_agent("keep", "memory_write", args, senders=["ticks", "noon"])
    )
    with test_pipeline(bundle, now="2026-03-01T11:45:00Z") as p:
        p.advance("9m")
        before = p.messages(sender="ticks")
        p.advance(timedelta(minutes=20))
        stored = p.store().records.list().items

        assert before == []
        assert [(one.content, one.created_at) for one in stored] == [
            ("tick", "2026-03-01T11:55:00.000Z"),
            ("noon", "2026-03-01T12:00:00.000Z"),
            ("tick", "2026-03-01T12:05:00.000Z"),
        ]
        assert p.now.isoformat() == "2026-03-01T12:14:00+00:00"


def test_messages_wait_for_their_flow() -> None:
    burst = make_echo(wf_flow={"key": "host", "debounce_s": 30})
    rate = make_echo(wf_flow={"rate": "2/60s"})
    batch = make_echo(wf_flow={"batch": {"size": 3, "within_s": 60}})
    with test_pipeline(burst) as p:
        for number in range(3):
            assert p.say(f'{{"host": "db1", "n": {number}}}') == []
            p.advance("20s")
        p.crash()
        p.advance("10s")
        assert [orjson.loads(one)["n"] for one in texts(p.messages(sender="echo"))] == [2]
    with test_pipeline(rate) as p:
        answers = [texts(p.say(text)) for text in ("one", "two", "three")]
        p.advance("59s")
        assert answers == [['{"text":"one"}'], ['{"text":"two"}'], []]
        assert len(p.messages(sender="echo")) == 2
        p.advance("1s")
        assert len(p.messages(sender="echo")) == 3
    with test_pipeline(batch) as p:
        for text in ("one", "two", "three", "four"):
            p.say(text)
        assert texts(p.messages(sender="echo")) == ['["one","two","three"]']
        p.advance("1m")
        assert texts(p.messages(sender="echo"))[1:] == ['["four"]']


def test_a_transient_failure_is_retried_when_it_is_due() -> None:
    tries = []

    @block("flaky", BlockArgs)
    def flaky(call: Call, args: BlockArgs) -> Message:
        tries.append(call.now_ms)
        if len(tries) < 3:
            raise Transient("not now", after_s=60)
        return call.reply("done")

    with test_pipeline(make_bundle("flaky", make_agent("flaky", "flaky", {}, senders="User"))) as p:
        assert p.say("tea") == []
        p.advance("59s")
        assert len(tries) == 1
        p.crash()
        p.advance("61s")

        assert len(tries) == 3 and len(set(tries)) == 1
        assert texts(p.messages(sender="flaky")) == ["done"]


def test_records_expire() -> None:
    with test_pipeline(make_writer(ttl_s=3600)) as p:
        p.say("tea")
        p.advance("59m")
        kept = p.store().records.list().total
        p.advance("2m")

        assert (kept, p.store().records.list().total) == (1, 0)
        assert [one.type for one in p.store().changes.list().items] == [
            "record.created",
            "record.expired",
        ]


def test_a_failed_message_is_a_dead_letter_with_its_reason() -> None:
    @block("fails", BlockArgs)
    def fails(call: Call, args: BlockArgs) -> Message:
        raise KeyError(call.text)

    agent = make_agent("fails", "fails", {}, senders="User")
    with test_pipeline(make_bundle("fails", agent)) as p:
        with pytest.raises(MessageFailed, match="KeyError: 'tea'"):
            p.say("tea")

        (letter,) = p.dead_letters
        assert "fails" in letter.error and b'"text":"tea"' in letter.data


def test_an_async_block_runs_and_its_operations_apply_once_after_a_crash() -> None:
    calls = []

    @block("slow", BlockArgs)
    async def slow(call: AsyncCall, args: BlockArgs) -> Message:
        calls.append(call.deferred_call_id)
        made = await call.operate("records.create", {"content": call.text})
        found = await call.operate("records.get", {"guid": made["guid"]})
        return call.reply(found["content"])

    agent = make_agent("slow", "slow", {}, senders="User")
    with test_pipeline(make_bundle("slow", agent)) as p:
        p.crash_after("call")
        assert texts(p.say("tea")) == ["tea"]
        assert p.store().records.list().total == 1
        assert len(calls) == 2 and len(set(calls)) == 1
        p.answer("slow_", "not really")
        assert texts(p.say("milk")) == ["not really"]
        assert [one.request for one in p.requests] == ["tea", "tea", "milk"]


def test_answers_come_in_turn_and_may_be_functions_and_exceptions() -> None:
    def look_up(request: Any) -> Any:
        return {"status": 200, "json": request["method"]}

    with test_pipeline(make_sender()) as p:
        p.answer("http_request", Transient("busy", after_s=5), RuntimeError("no"), look_up)
        p.say("tea")
        p.advance("5s")
        p.say("milk")
        p.say("sugar")

        answers = [orjson.loads(one.text) for one in p.messages(sender="post")]
        assert "RuntimeError: no" in answers[0]["error"]
        assert [one["json"] for one in answers[1:]] == ["POST", "POST"]


def test_a_request_is_made_only_if_the_test_says_so() -> None:
    with WebhookReceiver() as receiver, test_pipeline(make_sender(receiver.url)) as p:
        with pytest.raises(NoAnswer, match=r'p.answer\("post_", ...\), or p.execute\("post_"\)'):
            p.say("tea")
        p.execute("post_")
        p.crash()
        p.say("milk")

        assert [orjson.loads(one.text)["status"] for one in p.messages(sender="post")] == [200, 200]
        assert len(receiver.requests) == 2
        with pytest.raises(ValueError, match="these do: http_request, post_"):
            p.answer("keep", 1)


def test_the_executor_of_an_own_block_runs() -> None:
    async def look_up(request: Any, deferred_call: RunningCall) -> Any:
        found = await deferred_call.operate("records.search", {"query": request})
        return {"total": len(found["items"])}

    @block("lookup", BlockArgs, deferred_call=look_up)
    def lookup(call: Call, args: BlockArgs) -> Message | DeferredCall:
        return DeferredCall(call.text) if call.got is None else call.reply_json(call.got.value)

    with test_pipeline(make_bundle("x", make_agent("lookup", "lookup", senders="User"))) as p:
        p.store().records.create("green tea")
        p.advance("1d")
        p.store().records.create("black tea")

        assert texts(p.say("tea")) == ['{"total":2}']
        yesterday = (p.now - timedelta(hours=1)).isoformat()
        assert p.store().records.list(as_of=yesterday).total == 1
        with pytest.raises(OperationFailed, match="the last one is n:2"):
            p.store().records.list(as_of="n:99")


def test_a_store_has_the_typed_methods_and_the_file_stays(tmp_path: Path) -> None:
    with test_pipeline(make_writer(), folder=tmp_path) as p:
        made = p.store().records.create("by the test", tags=["x"])
        p.crash()
        assert p.store("memories").records.get(made.guid).tags == ("x",)
        assert p.store().records.search("test").items[0].record.source == "test"
        assert p.store().operate("records.list", {"limit": 1})["total"] == 1
        with pytest.raises(OperationFailed, match="nobody") as missing:
            p.store().records.get("nobody")
        assert missing.value.code == "not_found"
        with pytest.raises(OperationFailed, match="names no store"):
            p.store("other/place").records.list()
    with test_pipeline(make_writer(kind="later"), folder=tmp_path) as p:
        p.say("under another bundle")
        assert [one.kind for one in p.store().records.list().items] == ["observation", "later"]
    with open_store(tmp_path / "instances" / "test" / "memories.db") as store:
        assert store.records.list().items[0].content == "by the test"


def test_messages_on_a_public_swarm_come_back_to_its_listeners() -> None:
    news = make_agent("news", "template", {"template": "news: {{ text }}"}, senders="User")
    news |= {"agent_send_swarm": "news"}
    keep = make_agent("keep", "memory_write", {"memory_id": STORE}, senders="news")
    keep |= {"agent_rec_swarm": "news", "agent_send_swarm": "chat"}
    bundle = make_bundle("public", news, keep)
    bundle["swarms"] = [{"name": "news", "visibility": "public"}]
    with test_pipeline(bundle) as p:
        p.crash_after("publish")
        p.say("tea")

        assert texts(p.messages("news")) == ["news: tea"]
        assert p.store().records.list().total == 1


@pytest.mark.slow
def test_searches_by_meaning_need_the_embedder() -> None:
    with test_pipeline("memory_test", embedder="local") as p:
        p.say("/write Ada prefers a cup of tea")
        (found,) = p.say("/search hot beverages")

        assert "Ada prefers" in found.text


def test_what_cannot_run_names_the_fix() -> None:
    with pytest.raises(FileNotFoundError, match="no sample 'memory'; there are assistant,"):
        test_pipeline("memory")
    with pytest.raises(BundleRefused, match="there is no block"):
        test_pipeline(make_bundle("x", make_agent("x", "nothing", {}, senders="User")))
    with test_pipeline(make_echo()) as p:
        with pytest.raises(ValueError, match="has no swarm 'chatt'; it has chat"):
            p.say("tea", swarm="chatt")
        with pytest.raises(ValueError, match="has no agent 'nobody'"):
            p.webhook("nobody", {})
        with pytest.raises(ValueError, match=r'write it like "90s"'):
            p.advance("soon")
        with pytest.raises(ValueError, match="time only goes forward"):
            p.advance(-1)


def test_the_import_is_light_and_needs_no_test_framework() -> None:
    code = (
        "import sys, memrelay.testing\n"
        "heavy = {'apsw', 'aiohttp', 'redis', 'pydantic', 'asyncio'} & sys.modules.keys()\n"
        "from memrelay.testing import run_block, test_pipeline\n"
        "with test_pipeline('memory_test') as p: p.say('/write tea')\n"
        "print(sorted(heavy), sorted({'pytest', 'unittest', 'aiohttp'} & sys.modules.keys()))"
    )
    run = [sys.executable, "-c", code]
    shown = subprocess.run(run, capture_output=True, text=True, check=True).stdout

    assert shown == "[] []\n"
    assert run_block.__module__ == "memrelay.testing.single_block"
