"""One trace over two stores, a public swarm and a delivery, with the worker killed at each step."""

import secrets
import time

import pytest

from tests.faults.invariants import WITHIN_S
from tests.support.bundles import STORE, Json, make_agent, make_bundle, make_uid
from tests.support.calls import call
from tests.support.otlp_receiver import EXPORT_S, receive_spans
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.webhook_receiver import WebhookReceiver
from tests.support.worker import arm

NEWS, NOTES = "kept_news", "instances/${pipeline_uid}/notes"
PUBLIC: Json = {"swarms": [{"name": NEWS, "visibility": "public"}]}


def make_both(speaker: str, keeper: str) -> list[Json]:
    """Return two bundles: one writes to two stores and speaks in public, the other listens."""
    first = make_agent("first", "memory_write", {"memory_id": STORE}, senders="User")
    second = make_agent("second", "memory_write", {"memory_id": NOTES}, senders="first", to=NEWS)
    listener = make_agent("keeper", "memory_write", {"memory_id": STORE}, on=NEWS)
    return [make_bundle(speaker, first, second) | PUBLIC, make_bundle(keeper, listener) | PUBLIC]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("begins_outside", [True, False])
def test_a_trace_goes_on_after_a_kill(begins_outside: bool) -> None:
    speaker, keeper, kills = make_uid(), make_uid(), 0
    traces: list[str] = []
    with TestSystem() as system, receive_spans() as receiver, WebhookReceiver() as hooks:
        everything = {"OTEL_TRACES_SAMPLER": "always_on"}
        config = {
            "environment": receiver.environment | everything,
            "outgoing": {"open_for": ["endpoints"]},
        }
        worker = system.start_stepping_worker(
            armed=False, die_at=1, bundles=make_both(speaker, keeper), **config
        )
        call(system, keeper, "endpoints.create", {"url": hooks.url})

        def enter() -> None:
            traces.append(secrets.token_hex(16))
            context = {"traceparent": f"00-{traces[-1]}-{'1' * 16}-01"} if begins_outside else {}
            system.client.enter(speaker, "tea", **context)

        def has_all() -> bool:
            return len(system.contents(keeper)) == len(traces)

        while True:
            arm(worker)
            enter()
            if worker.lives_until(has_all, WITHIN_S):
                break
            kills += 1
            worker = system.start_stepping_worker(armed=False, die_at=kills + 1, **config)
            assert worker.lives_until(has_all, WITHIN_S)
            time.sleep(5 * EXPORT_S)
        worker.kill()
        system.start_worker(**config)
        known = len(receiver.spans)
        enter()
        wait_for(
            lambda: any(span.name == f"process {NEWS}" for span in receiver.spans[known:]),
            "the last message is heard",
        )
        wait_for(
            lambda: len({one.id for one in hooks.requests}) == len(traces), "all are delivered"
        )
        delivered = {one.headers["traceparent"].split("-")[1] for one in hooks.requests}
        consumers = [span for span in receiver.spans if span.kind == "consumer"]
        consumers = [span for span in consumers if span.name != "process endpoints.create"]
    # A killed worker loses its last spans. Those of its successor belong to the same traces.
    heard = {span.trace for span in consumers if span.name == f"process {NEWS}"}
    assert len(heard) > len(traces) / 2, (len(heard), len(traces))
    if begins_outside:
        assert {span.trace for span in consumers} <= set(traces)
        assert delivered == set(traces)
    assert len(delivered) == len(traces)
    assert len({span.trace for span in consumers}) <= len(traces)
    assert kills > 6
