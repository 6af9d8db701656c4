"""Kills: of the worker and of the server in the middle of 20,000 writes, and of the worker at each step between two stores."""
import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterable
from functools import partial

import apsw
import orjson
import redis

from tests.support.bundles import STORE, Json, make_bundle, make_memory, make_relay, make_uid
from tests.support.client import Client, input_of, make_envelope
from tests.support.house import House
from tests.support.waiting import wait_for

WRITES, KILLS = 20_000, 10
EVERYTHING = {"log_length": 10 * WRITES}   # so that no answer is trimmed from the log
NOTES = "instances/${pipeline_uid}/notes"


class Feeder(threading.Thread):
    """Appends numbered writes to an input, chunk by chunk; after an error the same chunk again, with the same ids."""

    def __init__(self, house: House, uid: str, *, with_ids: bool, pause_s: float) -> None:
        """`pause_s` between two chunks spreads the writes over the kills."""
        super().__init__()
        self._client, self._uid, self._with_ids, self._pause_s = Client(house.client.socket), uid, with_ids, pause_s
        self.entered: list[str] = []   # ids of the entries that were acknowledged

    def run(self) -> None:
        with self._client:
            for start in range(0, WRITES, 100):
                while not self._enter(range(start, start + 100)):
                    time.sleep(0.02)
                time.sleep(self._pause_s)

    def _enter(self, numbers: Iterable[int]) -> bool:
        try:
            with self._client.redis.pipeline(transaction=False) as pipe:
                for number in numbers:
                    fields = {"swarm": "chat", "data": make_envelope(f"/write {number}")}
                    pipe.xadd(input_of(self._uid), fields | ({"id": f"n{number}"} if self._with_ids else {}))
                self.entered += [ident.decode() for ident in pipe.execute()]
        except redis.RedisError:
            assert self._with_ids, "without ids nobody may ask again"
            return False
        return True


def assert_sound(house: House, uid: str, alias: str = "memories") -> None:
    """SQLite and FTS5 find nothing wrong; the latter compares index and table."""
    connection = apsw.Connection(str(house.store_file(uid, alias)))
    try:
        assert connection.pragma("integrity_check") == "ok"
        connection.execute("INSERT INTO records_fts(records_fts, rank) VALUES ('integrity-check', 1)")
    finally:
        connection.close()


def guids_told(house: House, uid: str) -> dict[str, set[str]]:
    """By input: every guid that an answer to it ever named."""
    told = defaultdict(set)
    for said in house.client.log(uid):
        if said.sender == "memory_write":
            told[said.input].add(orjson.loads(said.text)["guid"])
    return told


def assert_every_write_is_done_once(house: House, uid: str) -> dict[str, set[str]]:
    """20,000 records, none twice; each answered, and always with the same guid. Nothing is left to do."""
    house.client.await_quiet(uid, within_s=30)
    told, kept = guids_told(house, uid), {guid for guid, in house.rows(uid, "SELECT guid FROM records")}

    assert sorted(map(int, house.contents(uid))) == list(range(WRITES))
    assert all(len(guids) == 1 for guids in told.values())
    assert set.union(*told.values()) == kept
    assert not house.dead_letters(uid)
    assert (house.client.unacknowledged(uid), house.client.redis.xlen(input_of(uid))) == (0, 0)
    return told


def test_the_worker_is_killed_ten_times_in_the_middle_of_20000_writes() -> None:
    uid, moments = make_uid(), random.Random(20_000)
    with House() as house:
        worker = house.start_worker(bundles=[make_bundle(uid)], limits=EVERYTHING)
        feeder = Feeder(house, uid, with_ids=False, pause_s=0.04)
        feeder.start()
        unfinished = []
        for number in range(KILLS):
            time.sleep(moments.uniform(0, 0.2))
            wait_for(lambda: house.client.unacknowledged(uid), "something is in flight")
            time.sleep(moments.uniform(0, 0.01))
            worker.kill()
            unfinished.append(house.client.unacknowledged(uid))
            worker = house.start_worker(limits=EVERYTHING, ready=number % 3 > 0)   # sometimes killed while it recovers
            time.sleep(0 if number % 3 else 0.5)
        worker.await_ready()
        feeder.join()

        told = assert_every_write_is_done_once(house, uid)
        assert told.keys() == set(feeder.entered)
        print("in flight when the worker was killed:", unfinished)
        assert sum(map(bool, unfinished)) > KILLS / 2, "the kills were not in the middle"
        assert worker.stop() == 0
        assert_sound(house, uid)


def test_the_server_is_killed_ten_times_in_the_middle_of_20000_writes() -> None:
    uid, moments = make_uid(), random.Random(20_000)
    with House() as house:
        worker = house.start_worker(bundles=[make_bundle(uid)], limits=EVERYTHING)
        feeder = Feeder(house, uid, with_ids=True, pause_s=0.06)
        feeder.start()
        left = []
        for _ in range(KILLS):
            time.sleep(moments.uniform(0.02, 0.4))
            house.kill_server()
            house.server.start()
            left.append(house.client.redis.xlen(input_of(uid)))
            await_progress(house, uid)
        feeder.join()

        told = assert_every_write_is_done_once(house, uid)
        assert len(told) == WRITES
        print("not done when the server was killed:", left)
        assert sum(map(bool, left)) > KILLS / 2, "the kills were not in the middle"
        assert worker.stop() == 0
        assert_sound(house, uid)


def await_progress(house: House, uid: str) -> None:
    """Waits until a record more is written, if there is one to come."""
    count = "SELECT count(*) FROM records"
    ((before,),) = house.rows(uid, count)
    wait_for(lambda: (house.rows(uid, count)[0][0] > before) or before == WRITES, "the worker is back")


def make_two_stores(uid: str) -> Json:
    """/note TEXT is kept in one store, which is searched for it; what is found is kept in another store, as it is told."""
    keep = make_memory("write", hears="dispatch_note", memory_id=STORE)
    search = make_memory("search", hears="dispatch_note", memory_id=STORE)
    note = make_memory("write", hears="memory_search", memory_id=NOTES, alias="keeper")
    return make_bundle(uid, make_relay("note", r"^/note\s+(.*)"), keep, search, note)


def is_done(house: House, uid: str, notes: int) -> bool:
    """Whether so many notes are in both stores, and nothing is left to do."""
    return (len(house.contents(uid)) == len(house.contents(uid, "notes")) == notes
            and not house.rows(uid, "SELECT id FROM pending") and not house.client.redis.xlen(input_of(uid)))


def assert_each_effect_once(house: House, uid: str, words: list[str]) -> None:
    """Each word is once in the one store, and what was found of it once in the other; no answer was ever another."""
    found = [orjson.loads(content) for content in house.contents(uid, "notes")]
    texts = defaultdict(set)
    for said in house.client.log(uid):
        texts[said.mid.rpartition("~")[0]].add(said.text)

    assert house.contents(uid) == words
    assert [[record["content"] for record in records] for records in found] == [[word] for word in words]
    assert {len(told) for told in texts.values()} == {1}
    assert not house.dead_letters(uid)
    assert_sound(house, uid)
    assert_sound(house, uid, "notes")


def test_a_cascade_over_two_stores_is_done_once_wherever_the_worker_is_killed() -> None:
    uid, words = make_uid(), []
    with House() as house:
        worker = house.start_stepping_worker(armed=False, die_at=1, bundles=[make_two_stores(uid)])
        while True:
            worker.arm()
            words.append(f"word{len(words)}")
            house.client.enter(uid, f"/note {words[-1]}")
            if worker.lives_until(partial(is_done, house, uid, len(words))):
                break
            worker = house.start_stepping_worker(armed=False, die_at=len(words) + 1)
            assert worker.lives_until(partial(is_done, house, uid, len(words)))

        print("killed at each of", house.steps)
        assert len(words) > 8
        assert_each_effect_once(house, uid, words)


def test_a_cascade_over_two_stores_is_done_once_though_the_worker_is_killed_again_and_again() -> None:
    uid, kills = make_uid(), 0
    with House() as house:
        worker = house.start_stepping_worker(armed=False, die_at=1, bundles=[make_two_stores(uid)])
        worker.arm()
        house.client.enter(uid, "/note word")
        while not worker.lives_until(partial(is_done, house, uid, 1)):
            kills += 1
            worker = house.start_stepping_worker(die_at=kills, ready=False)

        print(f"killed {kills} times, each time a step later:", house.steps)
        assert kills > 4
        assert_each_effect_once(house, uid, ["word"])
