"""Row 15: a cascade over two stores and a public swarm, killed between every two commits."""

from collections import defaultdict
from collections.abc import Callable
from functools import partial

import orjson
import pytest

from memrelay.bus.keys import PUBLIC
from tests.faults.conftest import RecordFigures
from tests.faults.invariants import (
    WITHIN_S,
    assert_answers_agree,
    assert_same,
    assert_sound,
    remaining_work,
)
from tests.support.bundles import (
    STORE,
    Json,
    make_agent,
    make_bundle,
    make_memory,
    make_relay,
    make_uid,
)
from tests.support.client import SwarmMessage
from tests.support.system import TestSystem
from tests.support.worker import arm

NOTES = "instances/${pipeline_uid}/notes"
FAULT = "kill -9 of the worker in a cascade over two stores and a public swarm"
NEWS = "news"
IN_PUBLIC: Json = {"swarms": [{"name": NEWS, "visibility": "public"}]}
AT_ONCE = 3  # notes in progress at the same time


def make_two_stores(uid: str) -> Json:
    """Return a bundle: /note TEXT is stored in one store, which is searched for it; the result is
    stored in another store.

    The text itself goes to a public swarm at once, and so does the answer of the second store.
    """
    keep = make_memory("write", senders="dispatch_note", memory_id=STORE)
    search = make_memory("search", senders="dispatch_note", memory_id=STORE)
    note = make_memory("write", senders="memory_search", memory_id=NOTES, alias="keeper") | {
        "agent_send_swarm": NEWS
    }
    cry = make_agent("crier", "regex_match", {"pattern": "(.*)"}, senders="dispatch_note", to=NEWS)
    return (
        make_bundle(uid, make_relay("note", r"^/note\s+(.*)"), keep, search, note, cry) | IN_PUBLIC
    )


def make_reader(uid: str) -> Json:
    """Return a bundle that stores the public messages and publishes them again in public."""
    keep = make_memory("write", senders=["crier", "keeper"]) | {
        "agent_rec_swarm": NEWS,
        "agent_send_swarm": NEWS,
    }
    return make_bundle(uid, keep) | IN_PUBLIC


def is_done(system: TestSystem, uid: str, notes: int) -> bool:
    """Return whether so many notes are in all three stores and no work is left."""
    reader = reader_of(uid)
    return (
        len(system.contents(uid)) == len(system.contents(uid, "notes")) == notes
        and len(system.contents(reader)) == 2 * notes
        and not remaining_work(system, uid)
        and not remaining_work(system, reader)
    )


def assert_each_effect_once(system: TestSystem, uid: str, words: list[str]) -> None:
    """Check that each word is once in each store and once in public, in order."""
    found = [
        [record["content"] for record in orjson.loads(content)]
        for content in system.contents(uid, "notes")
    ]
    assert_same(system.contents(uid), words)
    assert (system.contents(uid), found) == (words, [[word] for word in words])
    reader, told = reader_of(uid), in_order_of_first(system.client.log(PUBLIC, NEWS))
    heard = system.contents(reader)
    assert_same([text for text in heard if not text.startswith("{")], words)
    assert [text for text in heard if text in words] == told["crier"] == words
    assert [text for text in heard if text not in words] == told["keeper"]
    assert len(told["keeper"]) == len(words) and len(told["memory_write"]) == 2 * len(words)
    assert guids(system, uid, "notes") == [orjson.loads(text)["guid"] for text in told["keeper"]]
    assert guids(system, reader) == [orjson.loads(text)["guid"] for text in told["memory_write"]]
    for pipeline in (uid, reader, PUBLIC):
        assert_answers_agree(system, pipeline, "chat" if pipeline == uid else NEWS)
    assert not system.dead_letters(uid) + system.dead_letters(reader)
    for pipeline, alias in ((uid, "memories"), (uid, "notes"), (reader, "memories")):
        assert_sound(system, pipeline, alias)


def in_order_of_first(log: list[SwarmMessage]) -> dict[str, list[str]]:
    """Return the messages by sender, each at its first position: a message may be repeated after
    a crash, under its ID.
    """
    first: dict[str, SwarmMessage] = {}
    said: dict[str, list[str]] = defaultdict(list)
    for one in log:
        first.setdefault(one.mid, one)
    for one in first.values():
        said[one.sender].append(one.text)
    return said


def guids(system: TestSystem, uid: str, alias: str = "memories") -> list[str]:
    return [guid for (guid,) in system.rows(uid, "SELECT guid FROM records ORDER BY row", alias)]


def reader_of(uid: str) -> str:
    """Return the UID of the pipeline that listens in public."""
    return f"{uid}_reader"


def make_both(uid: str) -> list[Json]:
    return [make_two_stores(uid), make_reader(reader_of(uid))]


def kills_at_each_step(system: TestSystem, uid: str, stride: int) -> list[str]:
    """Send notes until one passes without a kill; return them. A stride of 1 kills at each step."""
    words: list[str] = []
    worker, kills = system.start_stepping_worker(armed=False, die_at=1, bundles=make_both(uid)), 0
    while True:
        arm(worker)
        some = [f"word{len(words) + number}" for number in range(AT_ONCE)]
        words += some
        system.client.enter_together(uid, [f"/note {word}" for word in some])
        if worker.lives_until(partial(is_done, system, uid, len(words)), WITHIN_S):
            return words
        kills += stride
        worker = system.start_stepping_worker(armed=False, die_at=kills + 1)
        assert worker.lives_until(partial(is_done, system, uid, len(words)), WITHIN_S)


def kills_again_and_again(system: TestSystem, uid: str, stride: int) -> list[str]:
    """Kill the worker again `stride` steps after each restart."""
    kills = 0
    words = [f"word{number}" for number in range(AT_ONCE)]
    worker = system.start_stepping_worker(armed=False, die_at=1, bundles=make_both(uid))
    arm(worker)
    system.client.enter_together(uid, [f"/note {word}" for word in words])
    while not worker.lives_until(partial(is_done, system, uid, len(words)), WITHIN_S):
        kills += stride
        worker = system.start_stepping_worker(die_at=kills, ready=False)
    return words


@pytest.mark.timeout(300)
@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kill", [kills_at_each_step, kills_again_and_again])
def test_a_cascade_over_two_stores_and_a_public_swarm_applies_once(
    kill: Callable[[TestSystem, str, int], list[str]], stride: int, record_figures: RecordFigures
) -> None:
    uid = make_uid()
    with TestSystem() as system:
        words = kill(system, uid, stride)

        assert_each_effect_once(system, uid, words)
        kills = len(system.workers) - 1  # each kill is followed by a restart
        assert kills > 4, system.steps
        assert {"before commit", "committed", "continuations forgotten", "sent"} <= set(
            system.steps
        )
        record_figures(
            15, f"{FAULT}: {kill.__name__.replace('_', ' ')}", kills=kills, effects=4 * len(words)
        )
