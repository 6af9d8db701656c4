"""Row 15: a cascade over two stores, killed between every two commits. (Public swarms are not served yet.)"""
from collections.abc import Callable
from functools import partial

import orjson
import pytest

from tests.faults.conftest import Tell
from tests.faults.promises import assert_answers_agree, assert_same, assert_sound, left
from tests.support.bundles import STORE, Json, make_bundle, make_memory, make_relay, make_uid
from tests.support.house import House
from tests.support.worker import arm

NOTES = "instances/${pipeline_uid}/notes"
FAULT = "kill -9 of the worker in a cascade over two stores"


def make_two_stores(uid: str) -> Json:
    """/note TEXT is kept in one store, which is searched for it; what is found is kept in another store, as it is told."""
    keep = make_memory("write", hears="dispatch_note", memory_id=STORE)
    search = make_memory("search", hears="dispatch_note", memory_id=STORE)
    note = make_memory("write", hears="memory_search", memory_id=NOTES, alias="keeper")
    return make_bundle(uid, make_relay("note", r"^/note\s+(.*)"), keep, search, note)


def is_done(house: House, uid: str, notes: int) -> bool:
    """Whether so many notes are in both stores, and nothing is left to do."""
    return len(house.contents(uid)) == len(house.contents(uid, "notes")) == notes and not left(house, uid)


def assert_each_effect_once(house: House, uid: str, words: list[str]) -> None:
    """Each word is once in the one store, and what was found of it once in the other, in order."""
    found = [[record["content"] for record in orjson.loads(content)] for content in house.contents(uid, "notes")]
    assert_same(house.contents(uid), words)
    assert (house.contents(uid), found) == (words, [[word] for word in words])
    assert_answers_agree(house, uid)
    assert not house.dead_letters(uid)
    for alias in ("memories", "notes"):
        assert_sound(house, uid, alias)


def kills_at_each_step(house: House, uid: str) -> list[str]:
    """What was noted until a note passed without the worker being killed."""
    words: list[str] = []
    worker = house.start_stepping_worker(armed=False, die_at=1, bundles=[make_two_stores(uid)])
    while True:
        arm(worker)
        words.append(f"word{len(words)}")
        house.client.enter(uid, f"/note {words[-1]}")
        if worker.lives_until(partial(is_done, house, uid, len(words))):
            return words
        worker = house.start_stepping_worker(armed=False, die_at=len(words) + 1)
        assert worker.lives_until(partial(is_done, house, uid, len(words)))


def kills_again_and_again(house: House, uid: str) -> list[str]:
    """One word; each time that the worker comes back it is killed a step later."""
    kills = 0
    worker = house.start_stepping_worker(armed=False, die_at=1, bundles=[make_two_stores(uid)])
    arm(worker)
    house.client.enter(uid, "/note word")
    while not worker.lives_until(partial(is_done, house, uid, 1)):
        kills += 1
        worker = house.start_stepping_worker(die_at=kills, ready=False)
    return ["word"]


@pytest.mark.timeout(120)
@pytest.mark.parametrize("kill", [kills_at_each_step, kills_again_and_again])
def test_a_cascade_over_two_stores_is_done_once(kill: Callable[[House, str], list[str]], tell: Tell) -> None:
    uid = make_uid()
    with House() as house:
        words = kill(house, uid)

        assert_each_effect_once(house, uid, words)
        kills = len(house.workers) - 1   # each is followed by another
        assert kills > 4, house.steps
        assert {"before commit", "committed", "continuations forgotten", "sent"} <= set(house.steps)
        tell(15, f"{FAULT}: {kill.__name__.replace('_', ' ')}", kills=kills, effects=2 * len(words))
