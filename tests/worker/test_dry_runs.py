"""A dry run runs in a batch as a mutation does, and leaves no trace in the store."""

from typing import Any

from memrelay.bus.request import NewCall
from tests.support.bundles import make_bundle, make_uid
from tests.support.calls import call, call_all, make_call
from tests.support.system import TestSystem

FACT, KEY = "Customer prefers email", {"producer_id": "order-1"}


def deploy(system: TestSystem) -> tuple[str, str]:
    """Deploy a pipeline. Return its uid and the id of a named memory with one entry."""
    uid = make_uid()
    system.deploy(make_bundle(uid))
    entry = call(system, uid, "entries.create", {"memory": "notes", "content": FACT})
    system.client.await_quiet(uid)
    return uid, entry["memory_id"]


def make_dry_run(uid: str, memory: str, content: str, **how: Any) -> NewCall:
    given = {"memory_id": memory, "content": content, "dry_run": True}
    return make_call(uid, "entries.create", given, **how)


def state(system: TestSystem, uid: str) -> list[Any]:
    """Return the number of commits and the rows that a write changes."""
    tables = ("commits", "records", "versions", "entries", "inbox", "idempotency_keys", "memories")
    return [system.rows(uid, f"SELECT * FROM {table}") for table in tables]


def test_a_dry_run_leaves_the_commit_number_and_the_contents(system: TestSystem) -> None:
    uid, memory = deploy(system)
    before = state(system, uid)

    skipped, created = call_all(
        system,
        make_dry_run(uid, memory, FACT.upper()),
        make_dry_run(uid, memory, "The invoice is due in May"),
    )
    system.client.await_quiet(uid)

    assert (skipped["output"]["action"], created["output"]["action"]) == ("skipped", "created")
    assert skipped["output"]["why"] == "the same text except for case, spaces or punctuation"
    assert state(system, uid) == before and not system.dead_letters(uid)


def test_a_dry_run_uses_no_idempotency_key(system: TestSystem) -> None:
    uid, memory = deploy(system)

    planned = call_all(system, make_dry_run(uid, memory, "tea", **KEY))[0]["output"]
    written = call(system, uid, "entries.create", {"memory_id": memory, "content": "tea"}, **KEY)
    later = call_all(system, make_dry_run(uid, memory, "tea", **KEY))[0]["output"]

    assert (planned["action"], written["action"], later["action"]) == (
        "created",
        "created",
        "skipped",
    )
    assert (written["confirmations"], later["confirmations"]) == (0, 1)
    entries = call(system, uid, "entries.list", {"memory_id": memory})["items"]
    assert [one["confirmations"] for one in entries] == [0, 0]


def test_dry_runs_among_writes_see_them_and_undo_none(system: TestSystem) -> None:
    uid, memory = deploy(system)
    texts = [f"The code of room {number} is {number * 7919}" for number in range(20)]
    writes = [
        make_call(uid, "entries.create", {"memory_id": memory, "content": text, "mode": "skip"})
        for text in texts
    ]
    trials = [make_dry_run(uid, memory, text) for text in texts]
    paired = [one for pair in zip(writes, trials, strict=True) for one in pair]

    answers = [one["output"] for one in call_all(system, *paired)]

    assert [one["action"] for one in answers[::2]] == ["created"] * 20
    assert {one["action"] for one in answers[1::2]} <= {"created", "updated", "skipped"}
    entries = call(system, uid, "entries.list", {"memory_id": memory})
    assert entries["total"] == 21
    assert {one["confirmations"] for one in entries["items"]} == {0}
