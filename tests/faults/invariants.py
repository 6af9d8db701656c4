"""Conditions that hold after every fault: nothing lost, nothing applied twice, sound files, no
work left, a truthful /ready.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import apsw
import orjson

from tests.support.client import input_of
from tests.support.http import ask
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

WITHIN_S = 30.0


def assert_invariants(
    system: TestSystem,
    uid: str,
    texts: Iterable[str],
    *,
    url: str = "",
    ordered: bool = True,
    dead: int = 0,
) -> float:
    """Check all conditions for a pipeline whose `/write` agent stored `texts`; `url` names a web
    server if there is one.

    With `ordered`, the records must have the order of `texts`. `dead` is the expected number of
    dead letters. Return the seconds until all work was done.
    """
    took_s = await_no_remaining_work(system, uid)
    kept, wanted = system.contents(uid), list(texts)
    assert_same(kept, wanted)
    assert not ordered or kept == wanted, "the order is another"
    assert_answers_agree(system, uid)
    assert len(system.dead_letters(uid)) == dead
    for file in system.store_file(uid).parent.glob("*.db"):
        assert_sound(system, uid, file.stem)
    if url:
        assert_ready_is_true(system, url)
    return took_s


def await_no_remaining_work(system: TestSystem, uid: str) -> float:
    """Wait until nothing is pending, within 30 s; return the seconds that it took."""
    began = time.monotonic()
    wait_for(
        lambda: not remaining_work(system, uid),
        f"nothing is left of {uid}, but there is {remaining_work(system, uid)}",
        WITHIN_S,
    )
    return time.monotonic() - began


def remaining_work(system: TestSystem, uid: str) -> Mapping[str, int]:
    """Return the remaining work by the place where it waits."""
    key = input_of(uid)
    waiting = {
        "entries": int(system.client.redis.xlen(key)),
        "pending": system.client.unacknowledged(uid),
    }
    for file in system.store_file(uid).parent.glob("*.db"):
        waiting[f"continuations in {file.stem}"] = len(
            system.rows(uid, "SELECT id FROM pending", file.stem)
        )
    return {where: count for where, count in waiting.items() if count}


def assert_same(kept: list[str], wanted: list[str]) -> None:
    """Check that no text is missing, duplicated or invented."""
    missing, surplus = Counter(wanted) - Counter(kept), Counter(kept) - Counter(wanted)
    assert not missing, f"{missing.total()} are lost: {list(missing)[:5]}"
    assert not surplus, (
        f"{surplus.total()} are there twice, or never were said: {list(surplus)[:5]}"
    )


def assert_one_change_for_each_write(system: TestSystem, uid: str) -> None:
    """Check that the change feed has one row for each record, in the same order."""
    written = system.rows(uid, "SELECT guid FROM records ORDER BY row")
    changes = system.rows(uid, "SELECT subject, type FROM changes ORDER BY n")
    assert changes == [(guid, "record.created") for (guid,) in written]


def assert_answers_agree(system: TestSystem, uid: str, swarm: str = "chat") -> None:
    """Check that repeated messages of the log have equal content: a message may be repeated
    after a crash.
    """
    said = defaultdict(set)
    for one in system.client.log(uid, swarm):
        said[one.mid].add(orjson.dumps(one.envelope))
    named = defaultdict(set)
    for mid in said:
        named[mid.rpartition("~")[0]].add(mid)
    assert [place for place, mids in named.items() if len(mids) > 1] == []
    assert [mid for mid, envelopes in said.items() if len(envelopes) > 1] == []


def assert_sound(system: TestSystem, uid: str, alias: str = "memories") -> None:
    """Check the store with SQLite and FTS5; FTS5 compares its index with the table."""
    connection = apsw.Connection(str(system.store_file(uid, alias)))
    try:
        connection.set_busy_timeout(5000)
        assert connection.pragma("integrity_check") == "ok"
        connection.execute(
            "INSERT INTO records_fts(records_fts, rank) VALUES ('integrity-check', 1)"
        )
        connection.execute("INSERT INTO parts_fts(parts_fts, rank) VALUES ('integrity-check', 1)")
    finally:
        connection.close()


def assert_ready_is_true(system: TestSystem, url: str) -> None:
    """Check that /ready agrees with a write to the bus server."""
    assert system.client.redis.set("test:probe", 1, px=1000)
    answer = ask(url, "GET", "/ready")
    assert (answer.status, answer.json["ready"]) == (200, True), answer
