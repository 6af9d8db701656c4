"""Row 2: kill -9 of the bus server under load; it restarts on the same files."""

import random
import time

import pytest

from tests.faults.conftest import Tell
from tests.faults.feeder import Feeder
from tests.faults.promises import assert_promises
from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of
from tests.support.house import House
from tests.support.served import Served
from tests.support.waiting import LATE_S, wait_for

KILLS, COUNT = 5, "SELECT count(*) FROM records"


def await_progress(house: House, uid: str, feeder: Feeder) -> float:
    """Return the seconds until the next record is written; 0 if none is expected."""
    began, ((before,),) = time.monotonic(), house.rows(uid, COUNT)
    wait_for(
        lambda: house.rows(uid, COUNT)[0][0] > before or before == len(feeder.texts),
        "the worker is back",
    )
    return time.monotonic() - began


@pytest.mark.parametrize(
    "writes", [3_000, pytest.param(20_000, marks=[pytest.mark.slow, pytest.mark.timeout(180)])]
)
def test_the_server_is_killed_five_times_under_load(writes: int, tell: Tell) -> None:
    moments = random.Random(20_000)
    with Served(worker=False) as served:
        house, uid = served.house, make_uid()
        worker = house.start_worker(bundles=[make_bundle(uid)], limits={"log_length": 10 * writes})
        with Feeder(house, uid, writes, with_ids=True, pause_s=3 / (writes / 100)) as feeder:
            undone, back = [], []
            for _ in range(KILLS):
                time.sleep(moments.uniform(0.02, 0.4))
                wait_for(
                    lambda: house.client.redis.xlen(input_of(uid)) or not feeder.is_alive(),
                    "something is under way",
                )
                house.kill_server()
                wait_for(
                    lambda: served.get("/ready").status == 503,
                    "/ready tells that the server is gone",
                )
                house.server.start()
                undone.append(int(house.client.redis.xlen(input_of(uid))))
                back.append(await_progress(house, uid, feeder))
                wait_for(lambda: served.get("/ready").status == 200, "/ready tells that it is back")

        assert_promises(house, uid, feeder.texts, url=served.url)
        assert any(undone), "no kill was in the middle: whatever was under way, was done"
        assert max(back) < 5 + LATE_S
        assert worker.lives and served.web.lives
        tell(
            2,
            "kill -9 of the bus server under load",
            kills=KILLS,
            messages=writes,
            undone=sum(undone),
            reconnected_within_s=max(back),
        )
        assert worker.stop() == 0
