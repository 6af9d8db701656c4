"""A failing message never fails others."""

import re

from tests.support.bundles import STORE, make_agent, make_bundle, make_memory, make_uid
from tests.support.client import input_of
from tests.support.system import TestSystem

FAILING = make_agent("keeper", "test_fails", {"memory_id": STORE}, senders="User")
CRASHING = make_agent("keeper", "test_crashes", {"memory_id": STORE}, senders="User")


def test_a_failed_message_becomes_a_dead_letter_and_leaves_its_batch_unharmed() -> None:
    uid, texts = (
        make_uid(),
        [f"mine {number}" if number in (0, 7, 8, 199) else str(number) for number in range(200)],
    )
    with TestSystem() as system:
        system.start_worker(bundles=[make_bundle(uid, FAILING)])
        idents = system.client.enter_together(uid, texts)
        system.client.await_quiet(uid)

        letters = system.dead_letters(uid)
        assert {letter.id for letter in letters} == {idents[at] for at in (0, 7, 8, 199)}
        (error,) = {letter.error for letter in letters}
        reason, *frames = error.splitlines()
        assert reason == "RuntimeError: stepped on a mine (agent keeper_, block test_fails)"
        # The files of the block, without their folders.
        assert len(frames) <= 3
        assert re.fullmatch(r"  blocks\.py:\d+ in \w+", frames[-1]), frames
        assert "subscriber='agent keeper_, block test_fails'" in system.workers[0].output
        assert system.contents(uid) == [text for text in texts if "mine" not in text]
        assert [
            said.text for said in system.client.log(uid) if said.sender == "User"
        ] == system.contents(uid)


def test_dead_letters_come_in_the_order_of_their_messages(system: TestSystem) -> None:
    uid = make_uid()
    system.deploy(make_bundle(uid))
    with system.client.redis.pipeline(transaction=True) as pipe:
        for _ in range(30):
            pipe.xadd(input_of(uid), {"swarm": "chat", "data": b"broken"})
        idents = [ident.decode() for ident in pipe.execute()]

    system.client.await_quiet(uid)

    assert [letter.id for letter in system.dead_letters(uid)] == idents


def test_a_failed_message_leaves_no_effects_of_other_agents() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(
            bundles=[make_bundle(uid, make_memory("write", senders="User"), FAILING)]
        )
        ident = system.client.enter(uid, "mine")
        system.await_dead_letter(uid, ident)

        assert not system.client.log(uid)
        assert not system.contents(uid)


def test_a_message_that_crashes_the_worker_becomes_a_dead_letter() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker, crashes = system.start_worker(bundles=[make_bundle(uid, CRASHING)]), 0
        idents = system.client.enter_together(uid, ["one", "bomb", "two"])
        while not worker.lives_until(lambda: system.dead_letters(uid)):
            crashes += 1
            assert crashes < 6, "it goes on and on"
            worker = system.start_worker(ready=False)

        letter = system.await_dead_letter(uid, idents[1])
        system.client.await_quiet(uid)
        # In normal work, in the batch of the first recovery, and three times alone.
        assert (crashes, "3 times" in letter.error) == (5, True)
        assert system.contents(uid) == ["one", "two"]
