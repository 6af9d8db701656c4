"""`wf_flow`: the last of a burst, a rate for each key, and one call for several messages."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memrelay.bus.keys import reply_channel
from memrelay.memory.engine.stores import OpenStores
from memrelay.pipelines.check import check
from memrelay.pipelines.flow import Flow
from memrelay.pipelines.plan import Plan
from memrelay.worker.run import flow_gate
from tests.support.blocks import make_waiting
from tests.support.bundles import STORE, Json, make_agent, make_bundle, make_uid
from tests.support.client import input_of, make_envelope
from tests.support.dead_letters import replay
from tests.support.deferred_calls import Service
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.worker.test_batch import make_batch, make_entry

WAITING = "SELECT due, agent FROM pending WHERE flow IS NOT NULL AND due >= 0 ORDER BY n"
DAY_MS = 86_400_000
LONG = 80_000  # seconds
SAMPLE = Path(__file__).resolve().parents[2] / "memrelay/pipelines/webhooks/alert_dedupe.json"


def make_limited(name: str = "echo", block: str = "json_map", **flow: Any) -> Json:
    args = {"json_map": {"expression": "@"}, "memory_write": {"memory_id": STORE}}
    return make_agent(name, block, args.get(block, {}), senders="User") | {"wf_flow": flow}


def answers(system: TestSystem, uid: str, name: str = "echo") -> list[str]:
    return [said.text for said in system.client.log(uid) if said.sender == name]


def await_answers(system: TestSystem, uid: str, count: int) -> list[str]:
    """Return the answers when nothing is pending any more."""
    wait_for(
        lambda: (
            len(answers(system, uid)) >= count
            and not system.rows(uid, "SELECT 1 FROM pending", "relay")
        ),
        f"{count} answers",
    )
    return answers(system, uid)


def make_alerts(host: str, count: int) -> list[str]:
    return [orjson.dumps({"host": host, "n": number}).decode() for number in range(count)]


def test_a_burst_is_one_call_with_its_last_message(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid, make_limited(key="host", debounce_s=0.5)))

    one, other = make_alerts("db1", 100), make_alerts("db2", 1)
    system.client.enter_together(uid, [*one[:50], *other, *one[50:]])

    assert sorted(await_answers(system, uid, 2)) == [one[-1], other[-1]]
    assert system.rows(uid, "SELECT count(*) FROM flow_keys", "relay") == [(0,)]


def test_a_rate_lets_the_others_of_its_key_wait_in_their_order(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid, make_limited(key="host", rate=f"2/{LONG}s")))

    system.client.enter_together(uid, [*make_alerts("db1", 5), *make_alerts("db2", 1)])
    system.client.await_quiet(uid)

    assert answers(system, uid) == [*make_alerts("db1", 2), *make_alerts("db2", 1)]
    dues = [due for due, _ in system.rows(uid, WAITING, "relay")]
    (state,) = system.rows(uid, "SELECT due FROM flow_keys WHERE due IS NOT NULL", "relay")
    assert len(dues) == 3 and dues == sorted(dues) and dues[0] == state[0]
    assert dues[2] - dues[0] == LONG * 1000


def test_messages_that_wait_for_the_rate_run_later(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid, make_limited(rate="2/1s")))
    texts = make_alerts("db1", 4)

    system.client.enter_together(uid, texts)

    assert await_answers(system, uid, 4) == texts


def test_a_batch_is_one_call_with_a_list(system: TestSystem) -> None:
    uid, hasty = make_uid(), make_uid()
    system.deploy(
        make_bundle(uid, make_limited(batch={"size": 3, "within_s": LONG})),
        make_bundle(hasty, make_limited(batch={"size": 1000, "within_s": 0.3})),
    )

    system.client.enter_together(uid, ["one", '{"n": 2}', "3", "four", "five", "six", "seven"])
    system.client.enter_together(hasty, ["one", "two"])

    wait_for(lambda: len(answers(system, uid)) == 2, "two batches")
    assert [orjson.loads(text) for text in answers(system, uid)] == [
        ["one", {"n": 2}, 3],
        ["four", "five", "six"],
    ]
    assert len(system.rows(uid, WAITING, "relay")) == 1
    assert await_answers(system, hasty, 1) == ['["one","two"]']


def test_a_waiting_client_is_told_that_the_message_is_parked(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid, make_limited(debounce_s=LONG)))
    channel = reply_channel(uid, "flow")
    with system.client.redis.pubsub(ignore_subscribe_messages=True) as listener:
        listener.subscribe(channel)
        listener.get_message(timeout=1)
        system.client.enter(uid, "tea", reply=channel)

        report = wait_for(lambda: listener.get_message(timeout=0.1), "the report")

    told = orjson.loads(report["data"])
    assert (told["settled"], told["results"], told["parked"]) == (True, [], ["echo_"])


def test_a_repeated_idempotency_key_parks_nothing_again(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid, make_limited(batch={"size": 9, "within_s": LONG})))
    for _ in range(2):
        system.client.await_done(uid, system.client.enter(uid, "tea", id="once"))

    assert len(system.rows(uid, WAITING, "relay")) == 1


def test_a_deploy_without_the_agent_makes_waiting_messages_dead_letters(
    system: TestSystem,
) -> None:
    uid, other = make_uid(), make_agent("other", "json_map", {"expression": "@"}, senders="x")
    limited = make_limited(debounce_s=LONG)
    system.deploy(make_bundle(uid, limited, other))
    system.client.await_done(uid, system.client.enter(uid, "tea"))

    system.deploy(make_bundle(uid, other))
    (letter,) = wait_for(lambda: system.dead_letters(uid), "a dead letter")
    assert "a deploy has removed its agent 'echo_'" in letter.error
    assert b'"text":"tea"' in letter.data and letter.agent == "echo_"

    # With the agent and without its `wf_flow`, the replay runs at once.
    system.deploy(make_bundle(uid, {**limited, "wf_flow": None}, other))
    wait_for(lambda: system.client.ask(uid, "milk")[-1].sender == "echo", "the deploy")
    replay(system, uid, letter.id)
    wait_for(lambda: '{"text":"tea"}' in answers(system, uid), "the replay")


def test_a_returned_agent_does_not_wait_for_messages_that_are_gone(system: TestSystem) -> None:
    uid, other = make_uid(), make_agent("other", "json_map", {"expression": "@"}, senders="x")
    system.deploy(make_bundle(uid, make_limited(rate=f"1/{LONG}s"), other))
    system.client.enter_together(uid, ["one", "two"])
    system.client.await_quiet(uid)
    system.deploy(make_bundle(uid, other))
    wait_for(lambda: system.dead_letters(uid), "a dead letter")

    system.deploy(make_bundle(uid, make_limited(rate=f"9/{LONG}s"), other))

    wait_for(
        lambda: system.client.enter(uid, "three") and '{"text":"three"}' in answers(system, uid),
        "an answer",
    )


def test_a_deploy_that_ends_the_limit_runs_what_waits(system: TestSystem) -> None:
    uid, limited = make_uid(), make_limited(debounce_s=LONG)
    moved = make_limited("echo", "memory_write", debounce_s=LONG)
    system.deploy(make_bundle(uid, limited))
    system.client.await_done(uid, system.client.enter(uid, "tea"))

    # In the store of the new block it waits again.
    system.deploy(make_bundle(uid, moved))
    wait_for(
        lambda: system.store_file(uid).exists() and len(system.rows(uid, WAITING)) == 1, "it moved"
    )
    system.deploy(make_bundle(uid, {**moved, "wf_flow": None}))
    wait_for(lambda: system.contents(uid) == ["tea"], "the message has run")


def test_the_sample_publishes_one_line_for_a_burst_of_an_alert(system: TestSystem) -> None:
    uid, bundle = make_uid(), orjson.loads(SAMPLE.read_bytes())
    (settle,) = [one for one in bundle["agents"] if one["agent_alias"] == "settle"]
    settle["wf_flow"]["debounce_s"] = 0.3
    checked = check(SAMPLE.read_bytes())
    assert (checked.faults, checked.warnings) == ((), ())
    system.deploy({**bundle, "pipeline_uid": uid})

    def report(*states: str) -> None:
        before = len(system.client.log(uid, "states"))
        with system.client.redis.pipeline(transaction=True) as pipe:
            for state in states:
                labels = {"alertname": "DiskFull", "instance": "db1"}
                text = orjson.dumps({"labels": labels, "status": state}).decode()
                pipe.xadd(input_of(uid), {"agent": "alerts", "data": make_envelope(text)})
            pipe.execute()
        wait_for(lambda: len(system.client.log(uid, "states")) == before + 2, "the state")
        system.client.await_quiet(uid)

    report("firing", "resolved", "firing")
    report("firing", "resolved")

    lines = wait_for(lambda: system.client.log(uid, "oncall")[1:], "two lines")
    assert [said.text for said in system.client.log(uid, "oncall")] == [
        "db1/DiskFull = firing",
        "db1/DiskFull = resolved",
    ], lines


@pytest.fixture(scope="module")
def own_system() -> Iterator[TestSystem]:
    """A worker with the test blocks. The agent of `asking` asks a service."""
    with TestSystem() as system, Service() as service:
        limits = {"first_pause_s": 0.05, "longest_pause_s": 0.1, "retries": 3}
        agent = make_limited(block="test_waits_without_memory", batch={"size": 3, "within_s": 0.2})
        asking = make_limited(block="test_fetches", batch={"size": 2, "within_s": LONG})
        asking["wf_webhook_args"] = {"url": service.url}
        bundles = [make_bundle("failing", agent), make_bundle("asking", asking)]
        system.start_worker(limits=limits, bundles=bundles)
        yield system


def test_a_failed_batch_fails_its_first_message_only(
    own_system: TestSystem, tmp_path: Path
) -> None:
    poison = make_waiting("never", tmp_path / "gate")
    own_system.client.enter_together("failing", [poison, "two", "three"])

    assert await_answers(own_system, "failing", 1) == ['["two","three"]']
    (letter,) = own_system.dead_letters("failing")
    assert b"never until" in letter.data


def test_a_block_that_waits_for_a_service_gets_the_whole_batch(own_system: TestSystem) -> None:
    own_system.client.enter_together("asking", ["tell one", "two"])

    assert await_answers(own_system, "asking", 1) == ['one","two"]']


def test_a_key_beyond_the_limit_is_a_dead_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_gate, "MAX_KEYS", 2)
    checked = check(make_bundle("p", make_limited(key="text", debounce_s=LONG))).accepted()
    plan, stores = Plan(checked), OpenStores(tmp_path, 10)

    outcomes = (
        make_batch(
            *[make_entry(plan, f"{number}-0", text) for number, text in enumerate("abca", 1)]
        )
        .run(stores)
        .outcomes
    )

    errors = [one.dead_letter.error if one.dead_letter else "" for one in outcomes]
    assert [bool(error) for error in errors] == [False, False, True, False]
    assert "the agent echo_ has 2 keys (wf_flow)" in errors[2]
    stores.close_all()


@given(
    st.integers(1, 5),
    st.integers(1, 50),
    st.lists(st.integers(0, 60), max_size=60),
)
def test_no_window_has_more_starts_than_the_rate(
    rate: int, window_ms: int, pauses: list[int]
) -> None:
    flow = Flow(rate=rate, window_ms=window_ms)
    now_ms, kept, starts = 1000, tuple[int, ...](), list[int]()
    for pause in pauses:
        now_ms += pause
        if flow.count_free(kept, now_ms, 1):
            kept = (*flow.keep_recent(kept, now_ms), now_ms)
            starts.append(now_ms)
        else:
            due = flow.next_start_ms(kept, now_ms)
            assert now_ms < due <= now_ms + window_ms
            assert flow.count_free(kept, due, 1) and not flow.count_free(kept, due - 1, 1)
    for first, later in zip(starts, starts[rate:], strict=False):
        assert later - first >= window_ms


def test_a_clock_that_is_set_back_blocks_no_key_longer_than_a_window() -> None:
    flow = Flow(rate=1, window_ms=1000)

    assert flow.next_start_ms((9_000_000,), 5000) == 6000
