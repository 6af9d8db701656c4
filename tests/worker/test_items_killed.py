"""kill -9 of the worker at every step of a put, a rename and a share: each is done exactly once."""

from functools import partial

import orjson
import pytest

from tests.support.bundles import make_bundle, make_uid
from tests.support.calls import call
from tests.support.client import input_of
from tests.support.house import House
from tests.support.worker import arm

OWN = {"agent": "a1", "store": "a1"}


def call_each_twice(house: House, uid: str, word: str) -> None:
    """Send in one batch: a put, a rename and a share, each with a repeat of its idempotency key."""
    calls = {
        "items.put": {"key": f"{word}-put", "value": word},
        "items.rename": {"key": f"{word}-old", "to_store": "a1", "to_key": f"{word}-new"},
        "grants.set": {"grantee": f"{word}-agent"},
    }
    with house.client.redis.pipeline(transaction=True) as pipe:
        for name, given in calls.items():
            fields = {"op": name, "data": orjson.dumps(OWN | given), "id": f"{word} {name}"}
            pipe.xadd(input_of(uid), fields | {"actor": "tester"})
            pipe.xadd(input_of(uid), fields | {"actor": "tester"})
        pipe.execute()


def is_done(house: House, uid: str) -> bool:
    return not house.client.redis.xlen(input_of(uid))


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_worker_is_killed_at_every_step_of_changes_to_items() -> None:
    uid, words = make_uid(), list[str]()
    with House() as house:
        worker = house.start_stepping_worker(armed=False, die_at=1, bundles=[make_bundle(uid)])
        while True:
            word = f"word{len(words)}"
            call(house, uid, "items.put", OWN | {"key": f"{word}-old", "value": word})
            words.append(word)
            arm(worker)
            call_each_twice(house, uid, word)
            if worker.lives_until(partial(is_done, house, uid)):
                break
            worker = house.start_stepping_worker(armed=False, die_at=len(words) + 1)
            assert worker.lives_until(partial(is_done, house, uid))

        if worker.lives:
            worker.kill()
        house.start_worker()
        assert len(words) > 3 and {"before commit", "committed", "sent"} <= set(house.steps)
        items = call(house, uid, "items.list", OWN | {"limit": 1000})["entries"]
        assert {item["key"]: item["value"] for item in items} == {
            f"{word}-{suffix}": word for word in words for suffix in ("put", "new")
        }
        made = house.rows(uid, "SELECT count(*), max(number) FROM records", "stores")[0]
        assert made == (2 * len(words), 2)
        grants = call(house, uid, "grants.list", {"agent": "a1"})["grants"]
        assert sorted(one["grantee"] for one in grants) == sorted(f"{w}-agent" for w in words)
        assert house.dead_letters(uid) == []
