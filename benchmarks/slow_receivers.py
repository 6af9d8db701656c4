"""usage: slow_receivers.py [--rate N] [--seconds S] [--rounds N] [--json FILE]. Measure a
pipeline while the receivers of two others hang.

Calls write records at a fixed rate into a pipeline with an endpoint on this machine. Two other
pipelines of the same worker get as many writes. Their endpoints answer at once in the first case of
a round. In the second one, one never answers, and the other answers one byte a second. Prints the
99th percentile of the time until the answer to a call and until its delivery, in ms, and the ratios
of the two cases.
"""

import asyncio
import os
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support.harness import make_parser, write_result
from memrelay.bus.client.url import Address
from memrelay.bus.request import Requester
from tests.support.bundles import make_bundle
from tests.support.calls import WITHIN_S, call, make_call
from tests.support.hanging_receiver import HangingReceiver, answer_slowly, never_answer
from tests.support.system import TestSystem
from tests.support.webhook_receiver import Received, Reply, WebhookReceiver

MEASURED, OTHERS = "p0", ("p1", "p2")
WARM_UP_S = 2.0
Times = dict[str, float]


class TimedReceiver(WebhookReceiver):
    """Notes when the delivery of each text has come, monotonic seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.times: Times = {}

    def note(self, request: Received) -> Reply:
        """Note a request and return its answer."""
        self.times.setdefault(request.json["data"].get("content", ""), time.monotonic())
        return super().note(request)


async def write_paced(system: TestSystem, rate: float, count: int) -> tuple[Times, Times]:
    """Write records. Return when those of the measured pipeline were due, and were answered."""
    due, answered = Times(), Times()

    async def write(requester: Requester, uid: str, text: str) -> None:
        await requester.call(make_call(uid, "records.create", {"content": text}), WITHIN_S)
        if uid == MEASURED:
            answered[text] = time.monotonic()

    async with Requester(Address(path=str(system.client.socket))) as requester:
        began_s, tasks = time.monotonic(), list[asyncio.Task[None]]()
        for number in range(count):
            at_s, text = began_s + number / rate, f"note {number}"
            await asyncio.sleep(max(0.0, at_s - time.monotonic()))
            due[text] = at_s
            for uid in (MEASURED, *OTHERS):
                tasks.append(asyncio.create_task(write(requester, uid, text)))
        await asyncio.gather(*tasks)
    return due, answered


def find_p99(due: Times, done: Times, since_s: float) -> float:
    """Return the 99th percentile in ms of what was due after the warm-up."""
    first_s = min(due.values()) + since_s
    waits = [done[text] - at_s for text, at_s in due.items() if at_s >= first_s]
    return statistics.quantiles(waits, n=100)[98] * 1000


def measure(rate: float, seconds: float, *, hangs: bool) -> dict[str, float]:
    """Return the percentiles of one case."""
    with ExitStack() as stack:
        system = stack.enter_context(TestSystem())
        system.start_worker(outgoing={"open_for": ["endpoints"]}, fresh=True)
        system.deploy(*[make_bundle(uid) for uid in (MEASURED, *OTHERS)])
        receiver = stack.enter_context(TimedReceiver())
        call(system, MEASURED, "endpoints.create", {"url": receiver.url})
        for uid, answer in zip(OTHERS, (never_answer, answer_slowly), strict=True):
            other = HangingReceiver(answer) if hangs else WebhookReceiver()
            stack.enter_context(other)
            call(system, uid, "endpoints.create", {"url": other.url})
        count = int(rate * (WARM_UP_S + seconds))
        due, answered = asyncio.run(write_paced(system, rate, count))
        receiver.wait(count)
        return {
            "answer_ms": find_p99(due, answered, WARM_UP_S),
            "delivery_ms": find_p99(due, receiver.times, WARM_UP_S),
        }


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__, rounds=3)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--seconds", type=float, default=20.0)
    given = parser.parse_args()
    rounds: list[dict[str, Any]] = []
    for _ in range(given.rounds):
        rounds.append(
            {
                "prompt": measure(given.rate, given.seconds, hangs=False),
                "hanging": measure(given.rate, given.seconds, hangs=True),
            }
        )
        print(rounds[-1], flush=True)
    ratios = {
        name: statistics.median(one["hanging"][name] / one["prompt"][name] for one in rounds)
        for name in ("answer_ms", "delivery_ms")
    }
    print(f"p99 while two receivers hang, relative to prompt ones: {ratios}")
    write_result({"cores": os.cpu_count(), "rounds": rounds, "ratios": ratios}, given.json)


if __name__ == "__main__":
    main()
