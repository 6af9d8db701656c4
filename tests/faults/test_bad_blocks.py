"""Row 7: a block that fails for one message in a hundred, in whichever way, harms no other, and
holds nothing up."""

import sys

import apsw
import pytest

from tests.support.blocks import BOMB, EXIT, GLUTTON, MINE
from tests.support.bundles import STORE, make_agent, make_bundle, make_uid
from tests.support.client import Client, input_of
from tests.support.house import House

MESSAGES, ONE_IN = 600, 100
FAILING = make_agent("keeper", "test_fails", {"memory_id": STORE}, hears="User")
CRASHING = make_agent("keeper", "test_crashes", {"memory_id": STORE}, hears="User")
SLOW = make_agent("keeper", "test_sleeps", {"memory_id": STORE}, hears="User")
WITHOUT_MEMORY = make_agent("echo", "test_waits_without_memory", hears="User")
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
    """One in a hundred sets the block off; the first of them is the very first message."""
    return [
        f"{number} {trigger}" if number % ONE_IN == 0 else str(number) for number in range(count)
    ]


def enter(client: Client, uid: str, texts: list[str]) -> list[str]:
    """Enters the texts a hundred at a time; the ids of those that set the block off."""
    idents = [
        ident
        for at in range(0, len(texts), ONE_IN)
        for ident in client.enter_together(uid, texts[at : at + ONE_IN])
    ]
    return idents[::ONE_IN]


def is_quiet(house: House, *uids: str) -> bool:
    """Whether nothing waits to be done."""
    return not any(house.client.redis.xlen(input_of(uid)) for uid in uids)


def assert_unharmed(house: House, uid: str, texts: list[str]) -> None:
    """All that set nothing off is stored, in its order, and answered; nothing is left to do, and
    the store is sound."""
    good = [text for text in texts if text.isdecimal()]
    said = [one for one in house.client.log(uid) if one.sender == "keeper"]
    assert house.contents(uid) == good
    assert len({one.mid for one in said}) == len(good)
    assert (house.client.unacknowledged(uid), house.rows(uid, "SELECT count(*) FROM pending")) == (
        0,
        [(0,)],
    )
    connection = apsw.Connection(str(house.store_file(uid)))
    assert connection.pragma("integrity_check") == "ok"
    connection.close()


@pytest.mark.skipif(
    sys.platform != "linux", reason="what a process may use is limited in another way there"
)
@pytest.mark.parametrize("way", WAYS)
def test_a_block_that_fails_takes_its_own_message_alone(way: str) -> None:
    uid, beside, (trigger, reason) = make_uid(), make_uid(), WAYS[way]
    texts = make_texts(trigger)
    with House() as house:
        worker = house.start_worker(
            bundles=[make_bundle(uid, FAILING), make_bundle(beside, FAILING)]
        )
        bad = enter(house.client, uid, texts)
        ident = house.client.enter(beside, "tea")
        house.client.await_done(beside, ident)
        house.client.await_quiet(uid)

        letters = house.dead_letters(uid)
        assert [letter.id for letter in letters] == bad
        assert all(letter.error.startswith(reason) for letter in letters)
        assert_unharmed(house, uid, texts)
        assert worker.stop() == 0


@pytest.mark.timeout(180)
def test_a_block_that_ends_the_process_is_given_up_after_its_attempts_and_nothing_else_is() -> None:
    uid, beside, echo, restarts = make_uid(), make_uid(), make_uid(), 0
    texts, harmless = make_texts(BOMB, 200), [str(number) for number in range(100)]
    bundles = [
        make_bundle(uid, CRASHING),
        make_bundle(beside, CRASHING),
        make_bundle(echo, WITHOUT_MEMORY),
    ]
    with House() as house:
        house.start_worker(bundles=bundles).stop()
        bad = enter(house.client, uid, texts)
        house.client.enter_together(beside, harmless)
        alone = house.client.enter(echo, BOMB)
        worker = house.start_worker(ready=False)
        while not worker.lives_until(lambda: is_quiet(house, uid, beside, echo), 30):
            restarts += 1
            assert restarts <= 4 * 3 + 1, "it goes on and on"
            worker = house.start_worker(ready=False)

        assert [letter.id for letter in house.dead_letters(uid)] == bad
        assert [letter.id for letter in house.dead_letters(echo)] == [alone]
        assert all(
            "3 times" in letter.error
            for letter in house.dead_letters(uid) + house.dead_letters(echo)
        )
        assert not house.dead_letters(beside)
        assert_unharmed(house, uid, texts)
        assert_unharmed(house, beside, harmless)
        print(
            f"the worker was started again {restarts} times for {len(bad) + 1} messages that ended it"
        )


@pytest.mark.timeout(180)
def test_what_is_under_way_whenever_another_ends_the_process_is_not_given_up_with_it() -> None:
    slow, bombs, restarts = make_uid(), [make_uid() for _ in range(3)], 0
    with House() as house:
        house.start_worker(
            bundles=[make_bundle(slow, SLOW), *(make_bundle(uid, CRASHING) for uid in bombs)]
        ).stop()
        house.client.enter_together(slow, ["1", "2"])
        bad = [house.client.enter(uid, BOMB) for uid in bombs]
        worker = house.start_worker(ready=False)
        while not worker.lives_until(lambda: is_quiet(house, slow, *bombs), 30):
            restarts += 1
            assert restarts <= len(bombs) * (1 + 3), (
                "it goes on and on"
            )  # the first time each has not crashed before
            worker = house.start_worker(ready=False)

        assert [[letter.id for letter in house.dead_letters(uid)] for uid in bombs] == [
            [ident] for ident in bad
        ]
        assert not house.dead_letters(slow)
        assert_unharmed(house, slow, ["1", "2"])
        print(f"the worker was started again {restarts} times beside two messages that harm nobody")
