"""Row 7: a block fails for one message in a hundred. The other messages are unaffected and not
delayed.
"""

import sys

import apsw
import pytest

from tests.support.blocks import BOMB, EXIT, GLUTTON, MINE
from tests.support.bundles import STORE, make_agent, make_bundle, make_uid
from tests.support.client import Client, input_of
from tests.support.system import TestSystem

MESSAGES, ONE_IN = 600, 100
FAILING = make_agent("keeper", "test_fails", {"memory_id": STORE}, senders="User")
CRASHING = make_agent("keeper", "test_crashes", {"memory_id": STORE}, senders="User")
SLOW = make_agent("keeper", "test_sleeps", {"memory_id": STORE}, senders="User")
WITHOUT_MEMORY = make_agent("echo", "test_waits_without_memory", senders="User")
WAYS = {
    "raises": (MINE, "RuntimeError: stepped on a mine"),
    "raises what cannot say what it is": (
        f"speechless {MINE}",
        "Speechless: <exception str() failed>",
    ),
    "exits": (EXIT, "SystemExit: a library thought that this was its own program"),
    "eats memory": (GLUTTON, "MemoryError"),
}


def make_texts(trigger: str, count: int = MESSAGES) -> list[str]:
    """Return texts of which one in a hundred triggers the block's fault, beginning with the
    first.
    """
    return [
        f"{number} {trigger}" if number % ONE_IN == 0 else str(number) for number in range(count)
    ]


def enter(client: Client, uid: str, texts: list[str]) -> list[str]:
    """Send the texts in groups of a hundred; return the IDs of those that trigger the fault."""
    idents = [
        ident
        for at in range(0, len(texts), ONE_IN)
        for ident in client.enter_together(uid, texts[at : at + ONE_IN])
    ]
    return idents[::ONE_IN]


def is_quiet(system: TestSystem, *uids: str) -> bool:
    """Return whether no work is waiting."""
    return not any(system.client.redis.xlen(input_of(uid)) for uid in uids)


def assert_unharmed(system: TestSystem, uid: str, texts: list[str]) -> None:
    """Check that all other texts are stored in order and answered, that no work is left, and
    that the store is sound.
    """
    good = [text for text in texts if text.isdecimal()]
    said = [one for one in system.client.log(uid) if one.sender == "keeper"]
    assert system.contents(uid) == good
    assert len({one.mid for one in said}) == len(good)
    assert (
        system.client.unacknowledged(uid),
        system.rows(uid, "SELECT count(*) FROM pending"),
    ) == (
        0,
        [(0,)],
    )
    connection = apsw.Connection(str(system.store_file(uid)))
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


@pytest.mark.skipif(
    sys.platform != "linux", reason="what a process may use is limited in another way there"
)
@pytest.mark.parametrize("way", WAYS)
def test_a_failing_block_fails_only_its_message(way: str) -> None:
    uid, beside, (trigger, reason) = make_uid(), make_uid(), WAYS[way]
    texts = make_texts(trigger)
    with TestSystem() as system:
        worker = system.start_worker(
            bundles=[make_bundle(uid, FAILING), make_bundle(beside, FAILING)]
        )
        bad = enter(system.client, uid, texts)
        ident = system.client.enter(beside, "tea")
        system.client.await_done(beside, ident)
        system.client.await_quiet(uid)

        letters = system.dead_letters(uid)
        assert [letter.id for letter in letters] == bad
        assert all(letter.error.startswith(reason) for letter in letters)
        assert_unharmed(system, uid, texts)
        assert worker.stop() == 0


def test_only_the_message_that_ends_the_process_is_given_up() -> None:
    uid, beside, echo, restarts = make_uid(), make_uid(), make_uid(), 0
    texts, harmless = make_texts(BOMB, 200), [str(number) for number in range(100)]
    bundles = [
        make_bundle(uid, CRASHING),
        make_bundle(beside, CRASHING),
        make_bundle(echo, WITHOUT_MEMORY),
    ]
    with TestSystem() as system:
        system.start_worker(bundles=bundles).stop()
        bad = enter(system.client, uid, texts)
        system.client.enter_together(beside, harmless)
        alone = system.client.enter(echo, BOMB)
        worker = system.start_worker(ready=False)
        while not worker.lives_until(lambda: is_quiet(system, uid, beside, echo), 30):
            restarts += 1
            assert restarts <= 4 * 3 + 1, "it goes on and on"
            worker = system.start_worker(ready=False)

        assert [letter.id for letter in system.dead_letters(uid)] == bad
        assert [letter.id for letter in system.dead_letters(echo)] == [alone]
        assert all(
            "3 times" in letter.error
            for letter in system.dead_letters(uid) + system.dead_letters(echo)
        )
        assert not system.dead_letters(beside)
        assert_unharmed(system, uid, texts)
        assert_unharmed(system, beside, harmless)
        print(
            f"the worker was started again {restarts} times for {len(bad) + 1} messages that ended "
            f"it"
        )


def test_messages_in_a_crashed_batch_are_not_given_up() -> None:
    slow, bombs, restarts = make_uid(), [make_uid() for _ in range(3)], 0
    with TestSystem() as system:
        system.start_worker(
            bundles=[make_bundle(slow, SLOW), *(make_bundle(uid, CRASHING) for uid in bombs)]
        ).stop()
        system.client.enter_together(slow, ["1", "2"])
        bad = [system.client.enter(uid, BOMB) for uid in bombs]
        worker = system.start_worker(ready=False)
        while not worker.lives_until(lambda: is_quiet(system, slow, *bombs), 30):
            restarts += 1
            # The first crash is before any attempt is counted. Then each may end one batch, and
            # three times itself alone.
            assert restarts <= 1 + len(bombs) * (1 + 3), "it goes on and on"
            worker = system.start_worker(ready=False)

        assert [[letter.id for letter in system.dead_letters(uid)] for uid in bombs] == [
            [ident] for ident in bad
        ]
        assert not system.dead_letters(slow)
        assert_unharmed(system, slow, ["1", "2"])
        print(f"the worker was started again {restarts} times beside two messages that harm nobody")
