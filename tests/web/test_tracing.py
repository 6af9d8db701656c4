"""Traces over HTTP, cascades, stores, public swarms, retries and replays, at a real receiver."""

import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import orjson
import pytest
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased, Sampler, TraceIdRatioBased

from memrelay.cli.tracing import wants_tracing
from memrelay.tracing.provider import derive_trace_id, find_bound
from tests.support.blocks import MINE, make_waiting
from tests.support.bundles import STORE, Json, make_agent, make_bundle, make_uid
from tests.support.calls import call as make_call
from tests.support.http import ask
from tests.support.mcp_calls import make_request
from tests.support.otlp_receiver import OtlpReceiver, ReceivedSpan, receive_spans
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem
from tests.support.webhook_receiver import WebhookReceiver

NEWS, NOTES = "traced_news", "instances/${pipeline_uid}/notes"
PUBLIC: Json = {"swarms": [{"name": NEWS, "visibility": "public"}]}
SPEAKER, KEEPER, FRAGILE = "speaker", "keeper", "fragile"


def make_bundles() -> list[Json]:
    """A pipeline that writes to two stores and then speaks in public, one that listens there, and
    one whose block fails.
    """
    speaker = make_bundle(
        SPEAKER,
        make_agent("first", "memory_write", {"memory_id": STORE}, senders="User"),
        make_agent("second", "memory_write", {"memory_id": NOTES}, senders="first", to=NEWS),
    )
    keeper = make_bundle(
        KEEPER, make_agent("keeper", "memory_write", {"memory_id": STORE}, on=NEWS)
    )
    fragile = make_bundle(
        FRAGILE,
        make_agent("waiter", "test_waits", {"memory_id": STORE}, senders="User"),
        make_agent("fragile", "test_fails", {"memory_id": STORE}, senders="Fragile"),
        make_agent("asker", "test_tells_deferred_call", senders="Asker"),
    )
    return [speaker | PUBLIC, keeper | PUBLIC, fragile]


class Context(NamedTuple):
    """A trace context that a client sends."""

    trace: str
    span: str
    flags: str = "01"

    @property
    def header(self) -> str:
        return f"00-{self.trace}-{self.span}-{self.flags}"


def make_context(flags: str = "01") -> Context:
    return Context(secrets.token_hex(16), secrets.token_hex(8), flags)


class Traced(NamedTuple):
    web: WebSystem
    receiver: OtlpReceiver


@pytest.fixture(scope="module")
def traced() -> Iterator[Traced]:
    """A system whose worker and web server export their spans."""
    with receive_spans() as receiver, WebSystem(worker=False, secrets=receiver.environment) as web:
        web.system.start_worker(
            bundles=make_bundles(),
            environment=receiver.environment,
            limits={"first_pause_s": 0.05, "longest_pause_s": 0.2, "retries": 100},
            outgoing={"open_for": ["endpoints"]},
        )
        yield Traced(web, receiver)


def find(spans: list[ReceivedSpan], name: str, **attributes: str) -> ReceivedSpan:
    """Return the span with this name and these attributes, with dots for underscores."""
    wanted = {key.replace("__", "."): value for key, value in attributes.items()}
    (found,) = [
        span for span in spans if span.name == name and wanted.items() <= span.attributes.items()
    ]
    return found


def await_trace(traced: Traced, context: Context, name: str, pipeline: str) -> list[ReceivedSpan]:
    """Return the spans of a trace once that one has arrived, and those above it."""
    traced.receiver.await_span(
        lambda span: (
            span.trace == context.trace
            and span.name == name
            and span.attributes.get("memrelay.pipeline") == pipeline
        ),
        name,
    )

    def is_whole() -> bool:
        spans = traced.receiver.of_trace(context.trace)
        return {span.parent for span in spans} - {span.id for span in spans} == {context.span}

    wait_for(is_whole, "all parents have arrived")
    return traced.receiver.of_trace(context.trace)


def test_one_trace_leads_over_post_two_stores_and_a_public_swarm(traced: Traced) -> None:
    context = make_context()
    traced.web.say(SPEAKER, "tea", traceparent=context.header)

    spans = await_trace(traced, context, f"process {NEWS}", KEEPER)

    request = find(spans, "POST /v1/pipelines/{uid}/swarms/{swarm}/messages")
    sent = find(spans, "send chat")
    first = find(spans, "process chat")
    second = find(spans, "process second_")
    published = find(spans, f"send {NEWS}")
    heard = find(spans, f"process {NEWS}")
    chain = [request, sent, first, second, published, heard]
    assert [span.parent for span in chain] == [context.span, *[span.id for span in chain[:-1]]]
    assert [span.kind for span in chain] == [
        *("server", "producer", "consumer", "consumer", "producer", "consumer")
    ]
    assert request.attributes["http.response.status_code"] == 202
    assert first.attributes["messaging.message.id"] == sent.attributes["messaging.message.id"]
    written = [span for span in spans if span.name == "create_memory"]
    assert {(span.attributes["gen_ai.memory.store.id"], span.parent) for span in written} == {
        (f"instances/{SPEAKER}/memories", first.id),
        (f"instances/{SPEAKER}/notes", second.id),
        (f"instances/{KEEPER}/memories", heard.id),
    }
    commits = [span for span in spans if span.name == "commit"]
    assert {span.links for span in commits} == {(first.id,), (second.id,), (heard.id,)}
    assert [len(span.links) for span in (first, second, heard)] == [1, 1, 1]
    assert not any(span.failed for span in spans)
    assert traced.receiver.resources[0]["service.name"] == "memrelay"


def test_inputs_of_a_batch_are_linked_to_one_commit(traced: Traced) -> None:
    contexts = [make_context(), make_context()]
    with traced.web.system.client.redis.pipeline(transaction=True) as pipe:
        for context in contexts:
            data = orjson.dumps({"from": "User", "args": [{"text": "milk"}]})
            fields = {"swarm": "chat", "data": data, "traceparent": context.header}
            pipe.xadd(f"pipeline:{{{SPEAKER}}}:in", fields)
        pipe.execute()

    for context in contexts:
        await_trace(traced, context, f"process {NEWS}", KEEPER)
    consumers = [
        span
        for context in contexts
        for span in traced.receiver.of_trace(context.trace)
        if span.name == "process chat"
    ]
    (commit,) = {span.links for span in consumers}
    assert [span.parent for span in consumers] == [context.span for context in contexts]
    (own,) = [span for span in traced.receiver.spans if (span.id,) == commit]
    assert own.links == tuple(span.id for span in consumers)
    assert own.attributes["messaging.batch.message_count"] == 2


def await_consumers(traced: Traced, context: Context, count: int) -> list[ReceivedSpan]:
    """Return the spans that process inputs in a trace, as soon as there are so many."""

    def consumers() -> list[ReceivedSpan]:
        spans = traced.receiver.of_trace(context.trace)
        return [span for span in spans if span.kind == "consumer"]

    wait_for(lambda: len(consumers()) >= count, f"{count} inputs are processed")
    return consumers()


def test_a_retry_belongs_to_the_trace_of_its_message(traced: Traced, tmp_path: Path) -> None:
    context = make_context()
    text = make_waiting("tea at once", tmp_path / "gate", 1)
    traced.web.system.client.enter(FRAGILE, text, traceparent=context.header)

    failed, retried = await_consumers(traced, context, 2)
    assert (failed.failed, failed.attributes["error.type"]) == (True, "Transient")
    assert failed.attributes["memrelay.failure"] == "retry"
    assert (retried.failed, retried.parent) == (False, failed.id)


def test_a_replay_belongs_to_the_trace_of_its_message(traced: Traced, tmp_path: Path) -> None:
    context, system, mended = make_context(), traced.web.system, tmp_path / "mended"
    text = f"{MINE} {mended}"
    ident = system.client.enter(FRAGILE, text, sender="Fragile", traceparent=context.header)
    system.await_dead_letter(FRAGILE, ident)
    mended.touch()

    assert traced.web.post(f"/v1/dead-letters/{FRAGILE}/{ident}/replay").status == 202

    failed, replayed = await_consumers(traced, context, 2)
    assert (failed.attributes["memrelay.failure"], failed.parent) == ("dead_letter", context.span)
    sent = traced.receiver.await_span(lambda span: span.id == replayed.parent, "the replay")
    assert (sent.kind, sent.parent, replayed.failed) == ("producer", failed.id, False)


def test_a_delivery_and_a_replayed_input_belong_to_the_trace(traced: Traced) -> None:
    context, system = make_context(), traced.web.system
    uid = traced.web.deploy(
        make_agent("writer", "memory_write", {"memory_id": STORE}, senders="User"), inputs_days=1
    )
    with WebhookReceiver() as receiver:
        make_call(system, uid, "endpoints.create", {"url": receiver.url})
        system.client.enter(uid, "tea", traceparent=context.header)
        system.client.enter(uid, "milk")
        requests = {one.json["data"]["content"]: one for one in receiver.wait(2)}

        (consumer,) = await_consumers(traced, context, 1)
        span = traced.receiver.await_span(lambda span: span.name == "deliver", "the delivery")
        assert (span.trace, span.parent, span.kind) == (context.trace, consumer.id, "producer")
        assert span.attributes["http.response.status_code"] == 200
        assert span.attributes["messaging.message.id"] == requests["tea"].id
        assert requests["tea"].headers["traceparent"] == f"00-{context.trace}-{span.id}-01"
        assert "traceparent" not in requests["milk"].headers
        replay = traced.web.post(f"/v1/pipelines/{uid}/inputs/replay", {"as_new": True})
        # The call that created the endpoint, and may have its secret, is not kept.
        assert replay.json["replayed"] == 2
        await_consumers(traced, context, 2)


def test_a_deferred_call_and_its_operations_belong_to_the_trace(traced: Traced) -> None:
    context = make_context()
    client = traced.web.system.client
    client.enter(FRAGILE, "note", sender="Asker", traceparent=context.header)

    first, *_ = consumers = await_consumers(traced, context, 3)
    spans = await_trace(traced, context, "process records.create", FRAGILE)
    call = find(spans, "deferred call test_tells_deferred_call")
    sent = find(spans, "send records.create")
    assert [call.parent, sent.parent] == [first.id, call.id]
    assert {span.parent for span in consumers} == {context.span, sent.id, first.id}


def test_an_operation_continues_the_trace_of_its_request(traced: Traced) -> None:
    search, create = make_context(), make_context()
    path = f"/v1/pipelines/{SPEAKER}/records"
    traced.web.post(path, {"content": "milk"}, traceparent=create.header)
    traced.web.post(f"{path}/search", {"query": "milk"}, traceparent=search.header)

    created = await_trace(traced, create, "create_memory", SPEAKER)
    consumer = find(created, "process records.create")
    assert find(created, "create_memory").parent == consumer.id
    searched = await_trace(traced, search, "search_memory", SPEAKER)
    server, own = sorted(searched, key=lambda span: span.kind, reverse=True)
    assert (own.parent, own.attributes["memrelay.operation"]) == (server.id, "records.search")


def test_an_mcp_call_continues_the_trace_of_its_meta(traced: Traced) -> None:
    context = make_context()
    call = {"name": "memory_write", "arguments": {"content": "tea"}}
    body, headers = make_request("tools/call", call, None)
    body["params"]["_meta"]["traceparent"] = context.header
    answer = ask(traced.web.url, "POST", f"/mcp/{SPEAKER}", body, headers)
    assert "result" in answer.json

    tool = traced.receiver.await_span(lambda span: span.parent == context.span, "the tool")
    assert (tool.name, tool.kind) == ("tools/call memory_write", "server")
    consumer = traced.receiver.await_span(
        lambda span: span.trace == context.trace and span.kind == "consumer", "the operation"
    )
    assert consumer.attributes["memrelay.pipeline"] == SPEAKER


def test_an_unsampled_trace_is_not_exported_and_no_span_has_a_text(traced: Traced) -> None:
    dropped, context = make_context("00"), make_context()
    web = traced.web
    web.say(SPEAKER, "hushed", traceparent=dropped.header, webhook_id="first")
    web.say(SPEAKER, "secretive words", traceparent=context.header)

    await_trace(traced, context, f"process {NEWS}", KEEPER)
    assert not traced.receiver.of_trace(dropped.trace)
    assert not any(b"secretive" in body for body in traced.receiver.bodies)


@pytest.mark.parametrize("given", ["x", "00-00-00-01", "x" * 1000, "x" * 100_000, ""])
def test_a_malformed_context_is_not_kept(traced: Traced, given: str, tmp_path: Path) -> None:
    system, text = traced.web.system, f"{MINE} {tmp_path / 'never'}"

    ident = system.client.enter(FRAGILE, text, sender="Fragile", traceparent=given)

    kept = system.await_dead_letter(FRAGILE, ident).traceparent
    assert kept == "" or (kept != given and len(kept) == 55)  # of a trace that began here


def test_one_percent_of_the_traces_that_begin_here_are_exported(traced: Traced) -> None:
    before = len([span for span in traced.receiver.spans if not span.parent])
    traced.web.system.client.enter_together(FRAGILE, ["tea"] * 1000)
    traced.web.system.client.await_quiet(FRAGILE)
    context = make_context()
    traced.web.system.client.enter(FRAGILE, "last", traceparent=context.header)

    await_trace(traced, context, "process chat", FRAGILE)
    roots = [
        span
        for span in traced.receiver.spans[before:]
        if not span.parent and span.attributes.get("memrelay.pipeline") == FRAGILE
    ]
    assert 0 < len(roots) < 60


def test_texts_are_exported_with_the_switch_and_logs_have_the_trace(tmp_path: Path) -> None:
    uid, context, gate = make_uid(), make_context(), tmp_path / "never"
    fragile = make_agent("fragile", "test_fails", {"memory_id": STORE}, senders="User")
    with receive_spans() as receiver, WebSystem(worker=False) as web:
        switch = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": "true"}
        name = {"OTEL_SERVICE_NAME": "shop"}
        worker = web.system.start_worker(
            bundles=[make_bundle(uid, fragile)], environment=receiver.environment | switch | name
        )
        web.system.client.enter(uid, f"{MINE} {gate}", traceparent=context.header)
        span = receiver.await_span(lambda span: span.name == "block test_fails", "the block")
        (line,) = [line for line in worker.output.splitlines() if "block_failed" in line]
    assert MINE in str(span.attributes["gen_ai.input.messages"])
    assert receiver.resources[0]["service.name"] == "shop"
    assert f"trace_id={context.trace}" in line


@pytest.mark.parametrize(
    ("variables", "is_wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_an_endpoint_switches_tracing_on(variables: dict[str, str], is_wanted: bool) -> None:
    assert wants_tracing(variables) == is_wanted


def test_a_worker_without_an_endpoint_loads_nothing_of_it() -> None:
    # redis-py loads the metrics of the SDK by itself.
    ours = "opentelemetry.sdk.trace", "opentelemetry.exporter", "memrelay.tracing"
    program = (
        "import sys, memrelay.cli.commands.worker\n"
        f"names = {(*ours, 'memrelay.worker.tracing')}\n"
        "print([name for name in sys.modules if name.startswith(names)])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_another_protocol_leaves_tracing_off_with_the_remedy() -> None:
    grpc = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    with receive_spans() as receiver, WebSystem(worker=False) as web:
        worker = web.system.start_worker(environment=receiver.environment | grpc)
        assert worker.stop() == 0
        (line,) = [line for line in worker.output.splitlines() if "tracing_off" in line]
    assert "http/protobuf" in line and not receiver.bodies


@pytest.mark.parametrize(
    ("sampler", "ratio", "follows_parent"),
    [
        (ParentBased(TraceIdRatioBased(0.01)), 0.01, True),
        (TraceIdRatioBased(0.5), 0.5, False),
        (ALWAYS_ON, 1.0, False),
        (ParentBased(ALWAYS_ON), 1.0, True),
        (ParentBased(TraceIdRatioBased(0.0)), 0.0, True),
    ],
)
def test_the_bound_selects_what_the_sampler_does(
    sampler: Sampler, ratio: float, follows_parent: bool
) -> None:
    assert find_bound(sampler) == (round(ratio * 2**64), follows_parent)
    ids = [derive_trace_id("p1", f"{1_780_000_000_000 + number}-0") for number in range(20_000)]
    sampled = [sampler.should_sample(None, one, "").decision.is_sampled() for one in ids]
    assert sum(sampled) == pytest.approx(ratio * len(ids), abs=80)
    below = [(one & (2**64 - 1)) < find_bound(sampler)[0] for one in ids]
    assert below == sampled
