"""Row 36: kill -9 of the worker at every step while messages wait because of `wf_flow`."""

from functools import partial

import orjson
import pytest

from tests.faults.conftest import RecordFigures
from tests.support.bundles import Json, make_agent, make_bundle
from tests.support.client import input_of, make_envelope
from tests.support.system import TestSystem
from tests.support.worker import arm

UID, BURST, RATE, WINDOW_MS = "flowing", 100, 2, 1000
LAST: Json = {"wf_flow": {"key": "round", "debounce_s": 0.5}}
PACED: Json = {"wf_flow": {"rate": f"{RATE}/{WINDOW_MS // 1000}s"}}
BUNDLE = make_bundle(
    UID,
    make_agent("last", "json_map", {"expression": "@"}, senders="User") | LAST,
    make_agent("paced", "test_tells_start", senders="Pacer") | PACED,
)


def enter_burst(system: TestSystem, number: int) -> None:
    """Send a burst, and more messages than the rate allows, in one MULTI."""
    with system.client.redis.pipeline(transaction=True) as pipe:
        for at in range(BURST):
            data = make_envelope(orjson.dumps({"round": number, "at": at}).decode())
            pipe.xadd(input_of(UID), {"swarm": "chat", "data": data})
        for at in range(RATE + 1):
            data = make_envelope(f"{number}.{at}", "Pacer")
            pipe.xadd(input_of(UID), {"swarm": "chat", "data": data})
        pipe.execute()


def answers(system: TestSystem, name: str) -> list[Json]:
    """Return the answers of an agent. A crash may repeat one under its mid."""
    said = {one.mid: one.text for one in system.client.log(UID) if one.sender == name}
    return [orjson.loads(text) for text in said.values()]


def is_done(system: TestSystem, rounds: int) -> bool:
    return (
        not system.client.redis.xlen(input_of(UID))
        and len(answers(system, "paced")) >= rounds * (RATE + 1)
        and not system.rows(UID, "SELECT 1 FROM pending", "relay")
    )


@pytest.mark.slow
def test_debounce_and_rate_hold_when_the_worker_is_killed_at_every_step(
    record_figures: RecordFigures,
) -> None:
    rounds = 0
    with TestSystem() as system:
        worker = system.start_stepping_worker(armed=False, die_at=1, bundles=[BUNDLE])
        while True:
            arm(worker)
            enter_burst(system, rounds)
            rounds += 1
            if worker.lives_until(partial(is_done, system, rounds)):
                break
            worker = system.start_stepping_worker(armed=False, die_at=rounds + 1)
            assert worker.lives_until(partial(is_done, system, rounds))

        assert rounds > 5, system.steps
        last, paced = answers(system, "last"), answers(system, "paced")
        assert last == [{"round": number, "at": BURST - 1} for number in range(rounds)]
        assert [text for text, _ in paced] == [
            f"{number}.{at}" for number in range(rounds) for at in range(RATE + 1)
        ]
        starts = [start for _, start in paced]
        gaps = [later - first for first, later in zip(starts, starts[RATE:], strict=False)]
        assert min(gaps) >= WINDOW_MS, gaps
        assert system.dead_letters(UID) == []
        record_figures(
            36,
            "kill -9 of the worker while messages wait because of wf_flow",
            steps=rounds - 1,
            messages=rounds * (BURST + RATE + 1),
        )
