"""Continuations: steps of a cascade in another store."""

from tests.support.bundles import STORE, Json, make_agent, make_bundle, make_uid
from tests.support.house import House
from tests.support.waiting import wait_for
from tests.support.worker import arm

NOTES = "instances/${pipeline_uid}/notes"
NOTHING_PENDING = "SELECT count(*) FROM pending"


def make_writer(
    name: str, hears: str | list[str], memory_id: str, block: str = "memory_write"
) -> Json:
    return make_agent(name, block, {"memory_id": memory_id}, hears=hears)


def deploy(house: House, *agents: Json) -> str:
    """Deploy a new pipeline and return its uid."""
    uid = make_uid()
    house.deploy(make_bundle(uid, *agents))
    return uid


def await_end(house: House, uid: str, ident: str) -> None:
    """Wait until an input is finished and no store has a pending step."""
    house.client.await_done(uid, ident)
    for alias in ("memories", "notes"):
        if house.store_file(uid, alias).exists():
            wait_for(
                lambda alias=alias: house.rows(uid, NOTHING_PENDING, alias) == [(0,)],
                f"nothing is left in {alias}",
                8,
            )


def test_a_cascade_over_three_stores_publishes_each_step(house: House) -> None:
    third = make_writer("third", "second", "instances/${pipeline_uid}/more")
    uid = deploy(
        house, make_writer("first", "User", STORE), make_writer("second", "first", NOTES), third
    )

    await_end(house, uid, house.client.enter(uid, "tea"))

    log = house.client.log(uid)
    assert [said.sender for said in log] == ["User", "first", "second", "third"]
    assert len({said.mid for said in log}) == 4 and len({said.input for said in log}) == 1
    assert house.contents(uid, "notes") == [log[1].text]
    assert house.contents(uid, "more") == [log[2].text]


def test_two_agents_on_another_store_both_run(house: House) -> None:
    uid = deploy(
        house,
        make_writer("first", "User", STORE),
        make_writer("a", "first", NOTES),
        make_writer("b", "first", NOTES),
    )

    await_end(house, uid, house.client.enter(uid, "tea"))

    assert len(house.contents(uid, "notes")) == 2
    assert sorted(said.sender for said in house.client.log(uid)) == ["User", "a", "b", "first"]


def test_endless_answers_over_two_stores_are_stopped(house: House) -> None:
    uid = deploy(
        house, make_writer("here", ["User", "there"], STORE), make_writer("there", "here", NOTES)
    )

    await_end(house, uid, house.client.enter(uid, "tea"))

    (letter,) = house.dead_letters(uid)
    assert "worker.max_hops" in letter.error
    assert len(house.contents(uid)) + len(house.contents(uid, "notes")) == 32
    assert len(house.client.log(uid)) == 33


def test_multiplying_messages_over_two_stores_are_stopped() -> None:
    uid = make_uid()
    here = [make_writer(name, ["User", "c", "d"], STORE) for name in "ab"]
    there = [make_writer(name, ["a", "b"], NOTES) for name in "cd"]
    with House() as house:
        house.start_worker(
            bundles=[make_bundle(uid, *here, *there)], limits={"max_cascade": 100, "max_hops": 12}
        )

        await_end(house, uid, house.client.enter(uid, "tea"))

        assert any("worker.max_cascade" in letter.error for letter in house.dead_letters(uid))
        assert len(house.contents(uid)) + len(house.contents(uid, "notes")) < 300


def test_a_failed_continuation_becomes_a_dead_letter_and_keeps_earlier_effects() -> None:
    uid = make_uid()
    first = make_agent("first", "regex_filter", {"pattern": ""}, hears="User")
    agents = [
        first,
        make_writer("keeper", "first", STORE),
        make_writer("fails", "first", NOTES, "test_fails"),
    ]
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid, *agents)])

        await_end(house, uid, house.client.enter(uid, "mine"))
        await_end(house, uid, house.client.enter(uid, "tea"))

        (letter,) = house.dead_letters(uid)
        assert "stepped on a mine" in letter.error and b'"mine"' in letter.data
        assert (house.contents(uid), house.contents(uid, "notes")) == (["mine", "tea"], ["tea"])


def test_a_continuation_that_crashes_the_worker_becomes_a_dead_letter() -> None:
    uid, crashes = make_uid(), 0
    first = make_agent("first", "regex_filter", {"pattern": ""}, hears="User")
    agents = [
        first,
        make_writer("keeper", "first", STORE),
        make_writer("crashes", "first", NOTES, "test_crashes"),
    ]
    with House() as house:
        worker = house.start_worker(bundles=[make_bundle(uid, *agents)])
        house.client.enter(uid, "bomb")
        while not worker.lives_until(lambda: house.dead_letters(uid)):
            crashes += 1
            assert crashes < 6, "it goes on and on"
            worker = house.start_worker(ready=False)

        (letter,) = house.dead_letters(uid)
        assert "3 times" in letter.error
        assert (house.contents(uid), house.contents(uid, "notes")) == (["bomb"], [])


def test_after_a_crash_pending_steps_run_before_later_entries() -> None:
    uid, words = make_uid(), [f"word{number}" for number in range(5)]
    bundle = make_bundle(
        uid, make_writer("first", "User", STORE), make_writer("second", "first", NOTES)
    )
    with House() as house:
        worker = house.start_stepping_worker(
            bundles=[bundle], limits={"batch": 1}, armed=False, die_on="committed"
        )
        arm(worker)
        idents = house.client.enter_together(uid, words)
        worker.await_end()
        assert (house.contents(uid), house.contents(uid, "notes")) == (words[:1], [])

        house.start_worker()
        for ident in idents:
            await_end(house, uid, ident)

        firsts = [said.text for said in house.client.log(uid) if said.sender == "first"]
        assert house.contents(uid) == words and house.contents(uid, "notes") == firsts
