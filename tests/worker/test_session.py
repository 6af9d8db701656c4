"""The session: what becomes of a worker whose connections to the bus cannot be made, or break."""
import re
import time

from tests.support.child import ChildProcess
from tests.support.house import House
from tests.support.waiting import wait_for
from worker.service import FIRST_PAUSE_S, LONGEST_PAUSE_S


def pauses_s(worker: ChildProcess) -> list[float]:
    """How long it says to wait after each session."""
    return [float(told) for told in re.findall(r"bus_lost .*pause_s=([0-9.]+)", worker.said)]


def test_a_worker_that_gets_too_few_connections_gives_back_those_that_it_got() -> None:
    with House() as house:
        redis = house.client.redis
        ours = len(redis.client_list())
        redis.config_set("maxclients", ours + 2)   # it has four
        worker = house.start_worker(ready=False)

        wait_for(lambda: len(pauses_s(worker)) > 2, "it has tried several times")

        wait_for(lambda: len(redis.client_list()) == ours, "it keeps none")
        redis.config_set("maxclients", ours + 10)
        worker.await_ready()


def test_after_a_session_that_held_the_pauses_begin_anew_as_the_log_says() -> None:
    with House() as house:
        redis = house.client.redis
        redis.config_set("maxclients", len(redis.client_list()) + 2)
        worker = house.start_worker(ready=False)
        wait_for(lambda: len(pauses_s(worker)) > 2, "it has tried several times")
        redis.config_set("maxclients", 100)
        worker.await_ready()
        held_until = time.monotonic() + LONGEST_PAUSE_S
        wait_for(lambda: time.monotonic() > held_until, "it held")
        before = pauses_s(worker)

        redis.client_kill_filter(_type="normal", skipme=True)

        wait_for(lambda: len(pauses_s(worker)) > len(before), "it has noticed")
        assert before == sorted(before) and before[0] == FIRST_PAUSE_S < before[-1]
        assert pauses_s(worker)[len(before)] == FIRST_PAUSE_S
