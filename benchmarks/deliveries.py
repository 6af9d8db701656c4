"""usage: deliveries.py [--messages N] [--rounds N] [--json FILE]. Measure deliveries to endpoints.

The same writes go into a pipeline without an endpoint, and into one whose endpoint is a receiver on
this machine. Prints the messages per second until the last result, their ratio, the deliveries per
second until the last one has arrived, and the processor time of the worker per message.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import orjson
from aiohttp import web

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.pipelines import count_messages, make_writes
from benchmarks.plan import cpu_s
from benchmarks.support.blocking import BlockingConnection
from benchmarks.support.harness import make_parser, write_result
from tests.support.bundles import make_bundle, make_commands
from tests.support.calls import call
from tests.support.system import TestSystem
from tests.support.waiting import wait_for

NOTES = "instances/${pipeline_uid}/notes"


def serve_receiver() -> None:
    """Count the ids of requests, and answer the count to GET. Prints the port."""
    ids = set[str]()

    async def receive(request: web.Request) -> web.Response:
        await request.read()
        ids.add(request.headers["webhook-id"])
        return web.Response()

    async def count(_: web.Request) -> web.Response:
        return web.json_response(len(ids))

    async def run() -> None:
        app = web.Application()
        app.add_routes([web.post("/hook", receive), web.get("/count", count)])
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await asyncio.Event().wait()

    asyncio.run(run())


def read_count(port: int) -> int:
    """Return how many deliveries have arrived."""
    with urlopen(f"http://127.0.0.1:{port}/count") as answer:
        return int(orjson.loads(answer.read()))


def measure(count: int, port: int | None) -> dict[str, float]:
    """Return the rates and the processor time of one case."""
    with TestSystem() as system:
        worker = system.start_worker(outgoing={"open_for": ["endpoints"]}, fresh=True)
        uid = "p0"
        system.deploy(make_bundle(uid, *make_commands(NOTES)))
        already = 0
        if port is not None:
            already = read_count(port)
            call(system, uid, "endpoints.create", {"url": f"http://127.0.0.1:{port}/hook"})
        connection = BlockingConnection(str(system.client.socket))
        before, used_s = count_messages(connection, [uid]), cpu_s([worker.pid])
        began_s = time.perf_counter()
        connection.send(make_writes([uid], count), count + 2)
        while count_messages(connection, [uid]) - before < 3 * count:
            time.sleep(0.005)
        result: dict[str, float] = {"rate": count / (time.perf_counter() - began_s)}
        if port is not None:
            wait_for(lambda: read_count(port) - already >= count, "all have arrived", 120)
            result["deliveries"] = count / (time.perf_counter() - began_s)
        result["cpu_us"] = (cpu_s([worker.pid]) - used_s) / count * 1e6
    return result


def main() -> None:
    """Run the benchmark."""
    if sys.argv[1:] == ["receiver"]:
        serve_receiver()
        return
    parser = make_parser(__doc__, rounds=3)
    parser.add_argument("--messages", type=int, default=10_000)
    given = parser.parse_args()
    receiver = subprocess.Popen([sys.executable, __file__, "receiver"], stdout=subprocess.PIPE)
    assert receiver.stdout is not None
    port = int(receiver.stdout.readline())
    rounds: list[dict[str, Any]] = []
    try:
        for _ in range(given.rounds):
            rounds.append(
                {
                    "without": measure(given.messages, None),
                    "with": measure(given.messages, port),
                }
            )
            print(rounds[-1], flush=True)
    finally:
        receiver.kill()
        receiver.wait()
    ratio = statistics.median(one["with"]["rate"] / one["without"]["rate"] for one in rounds)
    delivered = statistics.median(one["with"]["deliveries"] for one in rounds)
    print(f"rate with an endpoint: {ratio:.2f} of that without; {delivered:,.0f} deliveries/s")
    write_result({"cores": os.cpu_count(), "rounds": rounds, "ratio": ratio}, given.json)


if __name__ == "__main__":
    main()
