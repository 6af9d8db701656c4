"""A redelivered batch publishes the same bytes, whatever part of it the inbox keeps."""

import os
from pathlib import Path

import orjson
import pytest

from memrelay.bus.client.resp import SwarmEncoder
from memrelay.bus.client.url import Address
from memrelay.bus.codec import encode
from memrelay.bus.message import new_message
from memrelay.bus.replication import Replication
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.errors import StoreBusy
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.worker.deliver.settled import SettledInputs
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.run.batch import Batch, BatchContext
from memrelay.worker.run.crash_isolation import AttemptJournal, CrashIsolation
from memrelay.worker.run.inputs import Entry, Published
from memrelay.worker.run.outcome import Outcome, PublicMessageLimit
from memrelay.worker.run.retries import Retries
from tests.support.bundles import Json, make_bundle, make_commands, make_memory, make_relay
from tests.support.locks import locked

DATA = encode(new_message("User", "me", "/write tea", username="User", now_ms=1_700_000_000_000))
FOREIGN = b'{"args": [{"text": "/write tea", "more": [1]}], "id": "me", "from": "User", "mid": "x"}'


def make_plan(user: str = "User", *public: str) -> Plan:
    chat: Json = {
        "agent_class": "chat_agent",
        "agent_alias": "chat",
        "agent_name": user,
        "agent_send_swarm": "chat",
    }
    swarms = [{"name": name, "visibility": "public"} for name in public]
    bundle = check(make_bundle("p", *make_commands(), chat) | {"swarms": swarms}).bundle
    assert bundle is not None
    return Plan(bundle)


def make_batch(
    *entries: Entry, journal: AttemptJournal | None = None, batch_s: float = 10.0
) -> Batch:
    return Batch(
        entries,
        BatchContext(
            WorkerLimits(batch_s=batch_s),
            SettledInputs(Replication.of(Address())),
            CrashIsolation(),
            PublicMessageLimit(),
        ),
        Retries(WorkerLimits(), {}, 0),
        journal=journal,
    )


def run(plan: Plan, root: Path, *fields: bytes, ident: str = "1700000000000-0") -> Outcome:
    stores = OpenStores(root, 10)
    (outcome,) = make_batch(Entry(ident, plan, list(fields))).run(stores).outcomes
    stores.close_all()
    return outcome


def said_by(outcome: Outcome) -> list[bytes]:
    """Return the packed messages of an outcome."""
    logged, live = SwarmEncoder(outcome.uid, 10).write(
        (outcome.publish_id or outcome.id).encode(), outcome.messages, outcome.numbers
    )
    return (
        logged[outcome.published > Published.CHANNEL :]
        + live[outcome.published >= Published.CHANNEL :]
    )


@pytest.mark.parametrize(
    ("before", "after"), [((), ()), (("chat",), ("chat",)), ((), ("chat",)), (("chat",), ())]
)
@pytest.mark.parametrize(
    "fields",
    [
        (b"swarm", b"chat", b"data", DATA),
        (b"swarm", b"chat", b"data", FOREIGN),
        (b"swarm", b"chat", b"data", DATA, b"published", b"1"),
        (b"agent", b"chat", b"data", DATA),
        (b"agent", b"memory_write_", b"data", DATA),
        (b"swarm", b"chat", b"data", DATA, b"id", b"mine"),
        (b"swarm", b"chat", b"data", DATA, b"hop", b"3"),
    ],
)
def test_a_redelivered_input_publishes_the_same_under_another_bundle(
    tmp_path: Path, fields: tuple[bytes, ...], before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    """The swarm is public in the first bundle, the second, both or none."""
    first = run(make_plan("User", *before), tmp_path, *fields)

    again = run(make_plan("Somebody", *after), tmp_path, *fields)

    assert first.messages and first.store
    assert (said_by(again), again.results, again.size) == (
        said_by(first),
        first.results,
        first.size,
    )


def test_a_repeated_producer_id_publishes_the_result_of_the_first(
    tmp_path: Path,
) -> None:
    first = run(make_plan(), tmp_path, b"swarm", b"chat", b"data", DATA, b"id", b"mine")

    second = run(
        make_plan(),
        tmp_path,
        b"swarm",
        b"chat",
        b"data",
        FOREIGN,
        b"id",
        b"mine",
        ident="1700000000000-1",
    )

    assert said_by(second) == said_by(first)[2::3]
    assert orjson.dumps(second.build_report()) == orjson.dumps(first.build_report())


def test_an_idempotency_key_costs_at_most_200_bytes(tmp_path: Path) -> None:
    without, with_keys = (
        store_bytes(tmp_path / name, 2000, with_keys=with_keys)
        for name, with_keys in (("without", False), ("with", True))
    )

    assert (with_keys - without) / 2000 <= 200


def store_bytes(root: Path, count: int, *, with_keys: bool) -> int:
    """Return the size of the store after so many writes."""
    plan, stores = make_plan(), OpenStores(root, 10)
    for first in range(0, count, 250):
        entries = [
            Entry(
                f"{1_700_000_000_000 + number}-0",
                plan,
                [b"swarm", b"chat", b"data", DATA.replace(b"tea", b"order %d" % number)]
                + ([b"id", b"msg_" + os.urandom(12).hex().encode()] if with_keys else []),
            )
            for number in range(first, first + 250)
        ]
        assert len(make_batch(*entries).run(stores).outcomes) == 250
    stores.close_all()
    return store_path(root, plan.stores[0]).stat().st_size


def make_two_stores() -> Plan:
    """Return a plan in which `/a` and `/b` write to two stores, and `/both` to both."""
    relays = [make_relay(name, f"^/(?:{name}|both) (.*)") for name in "ab"]
    keepers = [
        make_memory(
            "write", senders=f"dispatch_{name}", memory_id=f"instances/p/{name}", alias=name
        )
        for name in "ab"
    ]
    return Plan(check(make_bundle("p", *relays, *keepers)).accepted())


def make_entry(plan: Plan, ident: str, text: str) -> Entry:
    data = encode(new_message("User", "me", text, username="User", now_ms=1_700_000_000_000))
    return Entry(ident, plan, [b"swarm", b"chat", b"data", data])


def test_a_batch_that_takes_too_long_leaves_the_rest(tmp_path: Path) -> None:
    plan, stores = make_two_stores(), OpenStores(tmp_path, 10)
    entries = [make_entry(plan, f"{number}-0", f"/a {number}") for number in (1, 2, 3)]

    result = make_batch(*entries, batch_s=0).run(stores)

    assert [outcome.id for outcome in result.outcomes] == ["1-0"]
    assert list(result.left) == entries[1:]
    stores.close_all()


def test_a_batch_continues_after_a_busy_store(tmp_path: Path) -> None:
    plan, stores = make_two_stores(), OpenStores(tmp_path, 10)
    texts = {"1-0": "/a one", "2-0": "/a two", "3-0": "/b three"}
    make_batch(make_entry(plan, "2-0", texts["2-0"])).run(stores)
    with stores.get("instances/p/a").transaction() as store:
        store.inbox.forget(["p/2-0"])  # so its record is refused when it is committed again
    batch = make_batch(*[make_entry(plan, ident, text) for ident, text in texts.items()])
    stores.get("instances/p/b")
    with locked(tmp_path / "instances/p/b.db"), pytest.raises(StoreBusy):
        batch.run(stores)

    result = batch.run(stores)

    assert [outcome.id for outcome in result.outcomes] == list(texts)
    assert [outcome.dead_letter for outcome in result.outcomes] == [None] * 3
    assert [bool(outcome.messages) for outcome in result.outcomes] == [True, False, True]
    stores.close_all()


def test_a_step_continues_although_another_store_failed_after_its_commit(tmp_path: Path) -> None:
    plan, stores = make_two_stores(), OpenStores(tmp_path, 10)
    commits = 0

    def fail_second_commit(step: str) -> None:
        nonlocal commits
        commits += step == "before commit"
        if (step, commits) == ("before commit", 2):
            raise StoreBusy("the disk is full")

    settled, limits = SettledInputs(Replication.of(Address())), WorkerLimits(batch_s=10)
    context = BatchContext(
        limits, settled, CrashIsolation(), PublicMessageLimit(), checkpoint=fail_second_commit
    )
    work = [make_entry(plan, "1-0", "/both tea"), make_entry(plan, "2-0", "/b milk")]
    batch = Batch(work, context, Retries(limits, {}, 0))
    with pytest.raises(StoreBusy):
        batch.run(stores)

    first, _ = batch.run(stores).outcomes

    pending = stores.get(first.store).pending.all()
    assert pending and list(first.continuations) == pending
    stores.close_all()


def test_a_busy_store_does_not_count_as_another_attempt(tmp_path: Path) -> None:
    plan, stores = make_two_stores(), OpenStores(tmp_path, 10)
    batch = make_batch(make_entry(plan, "1-0", "/b tea"), journal=AttemptJournal())
    stores.get("instances/p/b")
    with locked(tmp_path / "instances/p/b.db"):
        for _ in range(5):
            with pytest.raises(StoreBusy):
                batch.run(stores)

    (outcome,) = batch.run(stores).outcomes

    assert (outcome.dead_letter, outcome.store) == (None, "instances/p/b")
    stores.close_all()


def test_an_input_whose_record_exists_is_done_and_no_dead_letter(tmp_path: Path) -> None:
    """Its inbox row is gone, as if a server brought back an old entry. The others run."""
    plan, stores = make_plan(), OpenStores(tmp_path, 10)
    fields = [b"swarm", b"chat", b"data", DATA]
    entries = [Entry(f"1700000000000-{number}", plan, fields) for number in range(3)]
    make_batch(entries[1]).run(stores)
    (name,) = plan.stores
    with stores.get(name).transaction() as store:
        store.inbox.forget([entries[1].key])

    outcomes = make_batch(*entries).run(stores).outcomes

    assert [outcome.id for outcome in outcomes] == [entry.id for entry in entries]
    assert [outcome.dead_letter for outcome in outcomes] == [None] * 3
    assert [bool(outcome.messages) for outcome in outcomes] == [True, False, True]
    assert stores.get(name).records.last_row == 3
    stores.close_all()
