"""Deploys and removals while a worker runs."""

import asyncio
import threading
import time
from functools import partial

import orjson
import pytest

from memrelay.memory.control.catalog import Catalog
from tests.support.bundles import STORE, make_agent, make_bundle, make_commands, make_uid
from tests.support.client import input_of
from tests.support.run_worker import deploy
from tests.support.system import TestSystem
from tests.support.waiting import wait_for


def make_plus(uid: str, amount: int) -> dict[str, object]:
    return make_bundle(uid, make_agent("plus", "add_1", {"amount": amount}, senders="User"))


def writes_to(system: TestSystem, uid: str, alias: str) -> bool:
    """Return whether the deployed version writes to the alias's store."""
    system.client.ask(uid, "/write probe")
    return system.contents(uid, alias)[-1:] == ["probe"]


def test_a_changed_bundle_takes_effect_while_the_worker_runs(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_plus(uid, 1))
    before = system.client.answer(uid, "1")

    system.deploy(make_plus(uid, 10))
    wait_for(lambda: system.client.answer(uid, "1") == 11, "the new version runs")

    assert before == 2


def test_a_deploy_is_noticed_without_an_announcement(system: TestSystem) -> None:
    uid = make_uid()
    system.client.enter(uid, "/write tea")

    system.deploy(make_bundle(uid), announced=False)

    wait_for(lambda: system.contents(uid), "the pipeline is served")
    assert system.contents(uid) == ["tea"]


def test_a_deploy_neither_loses_nor_repeats_messages(system: TestSystem) -> None:
    changing, other = make_uid(), make_uid()
    system.deploy(make_plus(changing, 1), make_bundle(other))
    texts = [str(number) for number in range(1000)]
    feeding = threading.Thread(
        target=lambda: [
            system.client.enter(uid, f"{how}{text}")
            for text in texts
            for uid, how in ((changing, ""), (other, "/write "))
        ]
    )
    feeding.start()
    amounts = [*range(2, 12)]
    for amount in amounts:
        system.deploy(make_plus(changing, amount))
        time.sleep(0.03)
    feeding.join()
    for uid in (changing, other):
        system.client.await_quiet(uid)

    added = [int(said.text) for said in system.client.log(changing) if said.sender == "plus"]
    differences = [sum_ - number for number, sum_ in enumerate(added)]
    assert (len(added), differences) == (1000, sorted(differences))
    assert set(differences) <= {1, *amounts}
    assert system.contents(other) == texts


def test_a_deploy_waits_for_a_slow_block_without_delaying_others() -> None:
    slow, other = make_uid(), make_uid()
    with TestSystem() as system:
        sleeper = make_agent("sleeper", "test_sleeps", {"memory_id": STORE}, senders="User")
        system.start_worker(bundles=[make_bundle(slow, sleeper), make_bundle(other)])
        system.client.enter_together(slow, ["tea"] * 10)  # 0.4 s each
        wait_for(lambda: system.client.unacknowledged(slow), "they are taken")

        asyncio.run(deploy(system.root, make_bundle(slow)))
        system.announce()
        time.sleep(0.3)
        system.client.ask(other, "/write not disturbed")
        left = system.client.redis.xlen(input_of(slow))
        system.client.await_quiet(slow)

        assert left
        assert system.contents(slow) == ["tea"] * 10
        wait_for(
            lambda: "guid" in system.client.ask(slow, "/write more")[-1].text,
            "the new version runs",
        )


@pytest.mark.parametrize(
    ("before", "after"), [("memories", "notes"), ("notes", "memories"), ("notes", "others")]
)
def test_an_idempotency_key_survives_a_deploy_with_another_store(
    system: TestSystem, before: str, after: str
) -> None:
    uid = make_uid()
    for alias in (before, after, before):
        system.deploy(make_bundle(uid, *make_commands(f"instances/${{pipeline_uid}}/{alias}")))
        wait_for(partial(writes_to, system, uid, alias), f"{alias} is written to")
        system.client.await_done(uid, system.client.enter(uid, "/write tea", id="order-1"))

    assert system.contents(uid, before).count("tea") == 1
    assert "tea" not in system.contents(uid, after)


def test_deploying_the_same_bundle_changes_nothing(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))
    system.client.answer(uid, "/write tea")

    system.deploy(make_bundle(uid))

    assert [record["content"] for record in system.client.answer(uid, "/read")] == ["tea"]


def test_a_removed_pipeline_returns_with_its_records(
    system: TestSystem,
) -> None:
    uid, other = make_uid(), make_uid()
    system.deploy(make_bundle(uid), make_bundle(other))
    system.client.answer(uid, "/write tea")

    system.remove(uid)
    wait_for(
        lambda: not system.client.redis.pubsub_numsub(f"swarm:{{{uid}}}:chat")[0][1],
        "no worker subscribes",
    )
    ident = system.client.enter(uid, "/write later")
    system.client.answer(other, "/write still here")
    assert system.client.redis.xrange(f"pipeline:{{{uid}}}:in", ident, ident)

    system.deploy(make_bundle(uid))
    system.client.await_quiet(uid)
    assert system.contents(uid) == ["tea", "later"]


def test_a_worker_without_pipelines_waits() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_worker()

        system.deploy(make_bundle(uid))

        assert "guid" in system.client.answer(uid, "/write tea")
        system.remove(uid)
        assert worker.stop() == 0


def test_an_input_runs_under_one_bundle_version(system: TestSystem) -> None:
    uid, notes = make_uid(), "instances/${pipeline_uid}/notes"
    old = make_bundle(
        uid,
        *make_commands(),
        make_agent(
            "keeper", "memory_write", {"memory_id": notes, "kind": "old"}, senders="memory_search"
        ),
    )
    new = make_bundle(
        uid,
        *make_commands(),
        make_agent(
            "keeper", "memory_write", {"memory_id": notes, "kind": "new"}, senders="memory_search"
        ),
    )
    system.deploy(old)

    idents = system.client.enter_together(uid, ["/search tea"] * 300)
    system.deploy(new)
    system.client.await_quiet(uid)
    wait_for(
        lambda: len(system.contents(uid, "notes")) == len(idents), "all continuations are done"
    )

    kinds = [kind for (kind,) in system.rows(uid, "SELECT kind FROM records ORDER BY row", "notes")]
    assert kinds == sorted(kinds, reverse=True)


def test_an_invalid_bundle_is_logged_once_with_the_reason(
    system: TestSystem,
) -> None:
    uid = make_uid()
    source = orjson.dumps(make_bundle(uid, make_agent("new", "block_of_tomorrow")))

    asyncio.run(put_unchecked(system, uid, source))
    system.announce()
    worker = system.workers[-1]
    wait_for(lambda: uid in worker.output, "the worker logs it")
    system.announce()
    system.deploy(make_bundle(make_uid()))

    told = [line for line in worker.output.splitlines() if uid in line]
    assert len(told) == 1
    assert "block_of_tomorrow" in told[0] and "restart the worker" in told[0]


async def put_unchecked(system: TestSystem, uid: str, source: bytes) -> None:
    async with Catalog(system.root) as catalog:
        await catalog.deploy(uid, "tomorrow", f"hash-of-{uid}", source, 1)
