"""Continuations: steps of a cascade in another store."""

from tests.support.bundles import STORE, Json, make_agent, make_bundle, make_uid
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.worker import arm

NOTES = "instances/${pipeline_uid}/notes"
NOTHING_PENDING = "SELECT count(*) FROM pending"


def make_writer(
    name: str, senders: str | list[str], memory_id: str, block: str = "memory_write"
) -> Json:
    return make_agent(name, block, {"memory_id": memory_id}, senders=senders)


def deploy(system: TestSystem, *agents: Json) -> str:
    """Deploy a new pipeline and return its uid."""
    uid = make_uid()
    system.deploy(make_bundle(uid, *agents))
    return uid


def await_end(system: TestSystem, uid: str, ident: str) -> None:
    """Wait until an input is finished and no store has a pending step."""
    system.client.await_done(uid, ident)
    for alias in ("memories", "notes"):
        if system.store_file(uid, alias).exists():
            wait_for(
                lambda alias=alias: system.rows(uid, NOTHING_PENDING, alias) == [(0,)],
                f"nothing is left in {alias}",
                8,
            )


def test_a_cascade_over_three_stores_publishes_each_step(system: TestSystem) -> None:
    third = make_writer("third", "second", "instances/${pipeline_uid}/more")
    uid = deploy(
        system, make_writer("first", "User", STORE), make_writer("second", "first", NOTES), third
    )

    await_end(system, uid, system.client.enter(uid, "tea"))

    log = system.client.log(uid)
    assert [said.sender for said in log] == ["User", "first", "second", "third"]
    assert len({said.mid for said in log}) == 4 and len({said.input for said in log}) == 1
    assert system.contents(uid, "notes") == [log[1].text]
    assert system.contents(uid, "more") == [log[2].text]


def test_two_agents_on_another_store_both_run(system: TestSystem) -> None:
    uid = deploy(
        system,
        make_writer("first", "User", STORE),
        make_writer("a", "first", NOTES),
        make_writer("b", "first", NOTES),
    )

    await_end(system, uid, system.client.enter(uid, "tea"))

    assert len(system.contents(uid, "notes")) == 2
    assert sorted(said.sender for said in system.client.log(uid)) == ["User", "a", "b", "first"]


def test_endless_answers_over_two_stores_are_stopped(system: TestSystem) -> None:
    uid = deploy(
        system, make_writer("here", ["User", "there"], STORE), make_writer("there", "here", NOTES)
    )

    await_end(system, uid, system.client.enter(uid, "tea"))

    (letter,) = system.dead_letters(uid)
    assert "worker.max_hops" in letter.error
    assert len(system.contents(uid)) + len(system.contents(uid, "notes")) == 32
    assert len(system.client.log(uid)) == 33


def test_multiplying_messages_over_two_stores_are_stopped() -> None:
    uid = make_uid()
    here = [make_writer(name, ["User", "c", "d"], STORE) for name in "ab"]
    there = [make_writer(name, ["a", "b"], NOTES) for name in "cd"]
    with TestSystem() as system:
        system.start_worker(
            bundles=[make_bundle(uid, *here, *there)], limits={"max_cascade": 100, "max_hops": 12}
        )

        await_end(system, uid, system.client.enter(uid, "tea"))

        assert any("worker.max_cascade" in letter.error for letter in system.dead_letters(uid))
        assert len(system.contents(uid)) + len(system.contents(uid, "notes")) < 300


def test_a_failed_continuation_becomes_a_dead_letter_and_keeps_earlier_effects() -> None:
    uid = make_uid()
    first = make_agent("first", "regex_filter", {"pattern": ""}, senders="User")
    agents = [
        first,
        make_writer("keeper", "first", STORE),
        make_writer("fails", "first", NOTES, "test_fails"),
    ]
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid, *agents)])

        await_end(system, uid, system.client.enter(uid, "mine"))
        await_end(system, uid, system.client.enter(uid, "tea"))

        (letter,) = system.dead_letters(uid)
        assert "stepped on a mine" in letter.error and b'"mine"' in letter.data
        assert (system.contents(uid), system.contents(uid, "notes")) == (["mine", "tea"], ["tea"])


def test_a_continuation_that_crashes_the_worker_becomes_a_dead_letter() -> None:
    uid, crashes = make_uid(), 0
    first = make_agent("first", "regex_filter", {"pattern": ""}, senders="User")
    agents = [
        first,
        make_writer("keeper", "first", STORE),
        make_writer("crashes", "first", NOTES, "test_crashes"),
    ]
    with TestSystem() as system:
        worker = system.start_worker(bundles=[make_bundle(uid, *agents)])
        system.client.enter(uid, "bomb")
        while not worker.lives_until(lambda: system.dead_letters(uid)):
            crashes += 1
            assert crashes < 6, "it goes on and on"
            worker = system.start_worker(ready=False)

        (letter,) = system.dead_letters(uid)
        assert "3 times" in letter.error
        assert (system.contents(uid), system.contents(uid, "notes")) == (["bomb"], [])


def test_after_a_crash_pending_steps_run_before_later_entries() -> None:
    uid, words = make_uid(), [f"word{number}" for number in range(5)]
    bundle = make_bundle(
        uid, make_writer("first", "User", STORE), make_writer("second", "first", NOTES)
    )
    with TestSystem() as system:
        worker = system.start_stepping_worker(
            bundles=[bundle], limits={"batch": 1}, armed=False, die_on="committed"
        )
        arm(worker)
        idents = system.client.enter_together(uid, words)
        worker.await_end()
        assert (system.contents(uid), system.contents(uid, "notes")) == (words[:1], [])

        system.start_worker()
        for ident in idents:
            await_end(system, uid, ident)

        firsts = [said.text for said in system.client.log(uid) if said.sender == "first"]
        assert system.contents(uid) == words and system.contents(uid, "notes") == firsts
