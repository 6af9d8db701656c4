"""Row 2: kill -9 of the bus server under load; it restarts on the same files."""

import random
import time

import pytest

from tests.faults.conftest import RecordFigures
from tests.faults.invariants import assert_invariants
from tests.faults.write_load import WriteLoad
from tests.support.bundles import make_bundle, make_uid
from tests.support.client import input_of
from tests.support.system import TestSystem
from tests.support.waiting import LATE_S, wait_for
from tests.support.web_system import WebSystem

KILLS, COUNT = 5, "SELECT count(*) FROM records"


def await_progress(system: TestSystem, uid: str, load: WriteLoad) -> float:
    """Return the seconds until the next record is written; 0 if none is expected."""
    began, ((before,),) = time.monotonic(), system.rows(uid, COUNT)
    wait_for(
        lambda: system.rows(uid, COUNT)[0][0] > before or before == len(load.texts),
        "the worker is back",
    )
    return time.monotonic() - began


@pytest.mark.parametrize(
    "writes", [3_000, pytest.param(20_000, marks=[pytest.mark.slow, pytest.mark.timeout(180)])]
)
def test_the_server_is_killed_five_times_under_load(
    writes: int, record_figures: RecordFigures
) -> None:
    moments = random.Random(20_000)
    with WebSystem(worker=False) as web_system:
        system, uid = web_system.system, make_uid()
        worker = system.start_worker(bundles=[make_bundle(uid)], limits={"log_length": 10 * writes})
        with WriteLoad(system, uid, writes, with_ids=True, pause_s=3 / (writes / 100)) as load:
            undone, back = [], []
            for _ in range(KILLS):
                time.sleep(moments.uniform(0.02, 0.4))
                wait_for(
                    lambda: system.client.redis.xlen(input_of(uid)) or not load.is_alive(),
                    "something is under way",
                )
                system.kill_server()
                wait_for(
                    lambda: web_system.get("/ready").status == 503,
                    "/ready tells that the server is gone",
                )
                system.server.start()
                undone.append(int(system.client.redis.xlen(input_of(uid))))
                back.append(await_progress(system, uid, load))
                wait_for(
                    lambda: web_system.get("/ready").status == 200, "/ready tells that it is back"
                )

        assert_invariants(system, uid, load.texts, url=web_system.url)
        assert any(undone), "no kill was in the middle: whatever was under way, was done"
        assert max(back) < 5 + LATE_S
        assert worker.lives and web_system.web.lives
        record_figures(
            2,
            "kill -9 of the bus server under load",
            kills=KILLS,
            messages=writes,
            undone=sum(undone),
            reconnected_within_s=max(back),
        )
        assert worker.stop() == 0
