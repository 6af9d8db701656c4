"""A failing message never fails others."""

from tests.support.bundles import STORE, make_agent, make_bundle, make_memory, make_uid
from tests.support.client import input_of
from tests.support.house import House

FAILING = make_agent("keeper", "test_fails", {"memory_id": STORE}, hears="User")
CRASHING = make_agent("keeper", "test_crashes", {"memory_id": STORE}, hears="User")


def test_a_failed_message_becomes_a_dead_letter_and_leaves_its_batch_unharmed() -> None:
    uid, texts = (
        make_uid(),
        [f"mine {number}" if number in (0, 7, 8, 199) else str(number) for number in range(200)],
    )
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid, FAILING)])
        idents = house.client.enter_together(uid, texts)
        house.client.await_quiet(uid)

        letters = house.dead_letters(uid)
        assert {letter.id for letter in letters} == {idents[at] for at in (0, 7, 8, 199)}
        assert {letter.error for letter in letters} == {
            "RuntimeError: stepped on a mine (agent keeper_, block test_fails)"
        }
        assert "subscriber='agent keeper_, block test_fails'" in house.workers[0].said
        assert house.contents(uid) == [text for text in texts if "mine" not in text]
        assert [
            said.text for said in house.client.log(uid) if said.sender == "User"
        ] == house.contents(uid)


def test_dead_letters_come_in_the_order_of_their_messages(house: House) -> None:
    uid = make_uid()
    house.deploy(make_bundle(uid))
    with house.client.redis.pipeline(transaction=True) as pipe:
        for _ in range(30):
            pipe.xadd(input_of(uid), {"swarm": "chat", "data": b"broken"})
        idents = [ident.decode() for ident in pipe.execute()]

    house.client.await_quiet(uid)

    assert [letter.id for letter in house.dead_letters(uid)] == idents


def test_a_failed_message_leaves_no_effects_of_other_agents() -> None:
    uid = make_uid()
    with House() as house:
        house.start_worker(bundles=[make_bundle(uid, make_memory("write", hears="User"), FAILING)])
        ident = house.client.enter(uid, "mine")
        house.await_dead_letter(uid, ident)

        assert not house.client.log(uid)
        assert not house.contents(uid)


def test_a_message_that_crashes_the_worker_becomes_a_dead_letter() -> None:
    uid = make_uid()
    with House() as house:
        worker, crashes = house.start_worker(bundles=[make_bundle(uid, CRASHING)]), 0
        idents = house.client.enter_together(uid, ["one", "bomb", "two"])
        while not worker.lives_until(lambda: house.dead_letters(uid)):
            crashes += 1
            assert crashes < 6, "it goes on and on"
            worker = house.start_worker(ready=False)

        letter = house.await_dead_letter(uid, idents[1])
        house.client.await_quiet(uid)
        # In normal work, in the batch of the first recovery, and three times alone.
        assert (crashes, "3 times" in letter.error) == (5, True)
        assert house.contents(uid) == ["one", "two"]
