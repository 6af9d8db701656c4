"""usage: deferred_calls.py [--seconds S] [--wait S] [--rounds N] [--json FILE]. Measure how much
deferred calls that wait delay the messages of another pipeline.

A worker has two pipelines. One writes records, a message every 10 ms. The other has an async block
that awaits an HTTP answer for 2 s; in every second phase, 8 of its calls wait at any time. Prints
the latency of the writes in both phases, and the worker's memory before the first deferred call.
"""

import asyncio
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import orjson

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.restart import Answers, deploy, request_writes, start_worker
from benchmarks.support.blocking import BlockingConnection
from benchmarks.support.harness import make_parser, temporary_bus, write_result
from memrelay.blocks import sources
from memrelay.bus.client.resp import pack
from memrelay.bus.keys import input_key
from memrelay.memory.control.catalog import Catalog
from memrelay.pipelines.check import check

QUICK, SLOW, AT_ONCE, PAUSE_S = "quick", "slow", 8, 0.01
BLOCK = '''
"""ask_slowly: await an HTTP answer."""

import aiohttp

from memrelay import block


@block("ask_slowly", ordered=False)
async def ask_slowly(call, args):
    async with aiohttp.ClientSession() as session, session.get(call.text) as answer:
        return call.reply(await answer.text())
'''


class SlowService(ThreadingHTTPServer):
    """Answers after a while, on a free loopback port."""

    daemon_threads, request_queue_size = True, 64

    def __init__(self, wait_s: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.wait_s, self.answered = wait_s, 0

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the worker's end."""


class _Handler(BaseHTTPRequestHandler):
    server: SlowService

    def do_GET(self) -> None:
        """Answer with two bytes."""
        time.sleep(self.server.wait_s)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")
        self.server.answered += 1

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def slow_service(wait_s: float) -> Iterator[SlowService]:
    """Yield a running service."""
    service = SlowService(wait_s)
    threading.Thread(target=service.serve_forever, daemon=True).start()
    try:
        yield service
    finally:
        service.shutdown()


async def deploy_slow(root: Path) -> None:
    """Deploy the pipeline with the async block."""
    agent = {
        "agent_class": "wf_agent",
        "agent_alias": "slow",
        "agent_name": "slow",
        "agent_rec_swarm": "chat",
        "agent_send_swarm": "results",
        "agent_from": "User",
        "wf_diagram_webhook": "ask_slowly",
        "wf_publish_results": True,
    }
    async with Catalog(root) as catalog:
        bundle = check({"pipeline_name": SLOW, "pipeline_uid": SLOW, "agents": [agent]}).accepted()
        await catalog.deploy(SLOW, SLOW, bundle.hash, bundle.source, time.time_ns() // 1_000_000)


def request_slow(connection: BlockingConnection, url: str, count: int) -> None:
    """Append calls of the async block."""
    part = {"username": "user", "text": url, "type": "text/plain"}
    data = orjson.dumps({"from": "User", "id": "user", "args": [part]})
    command = pack("XADD", input_key(SLOW), "*", "swarm", "chat", "data", data)
    connection.send(command * count, count)


def measure_writes(connection: BlockingConnection, answers: Answers, seconds: float) -> list[float]:
    """Return the sorted latencies of writes in ms."""
    times: list[float] = []
    until_s = time.perf_counter() + seconds
    while (started_s := time.perf_counter()) < until_s:
        request_writes(connection, [QUICK])
        answers.wait([QUICK])
        took_s = time.perf_counter() - started_s
        times.append(1000 * took_s)
        time.sleep(max(0.0, PAUSE_S - took_s))
    return sorted(times)


def measure_process(pid: int) -> dict[str, float]:
    """Return the resident memory and the number of threads of a process."""
    process = Path(f"/proc/{pid}")
    pages = int((process / "statm").read_text().split()[1])
    memory_mb = pages * os.sysconf("SC_PAGESIZE") / 1e6
    return {"memory_mb": memory_mb, "threads": len(list((process / "task").iterdir()))}


def describe(times: list[float]) -> dict[str, float]:
    """Return p50, p95 and the maximum."""
    return {
        "p50_ms": statistics.median(times),
        "p95_ms": times[int(len(times) * 0.95)],
        "max_ms": times[-1],
    }


def measure(seconds: float, wait_s: float) -> dict[str, Any]:
    """Return the latencies of one round, idle and with deferred calls, and the memory of the
    worker.
    """
    with (
        tempfile.TemporaryDirectory() as blocks,
        temporary_bus("deferred_calls") as (folder, server),
        slow_service(wait_s) as service,
    ):
        (Path(blocks) / "ask_slowly.py").write_text(BLOCK)
        sources.use_folders([Path(blocks)])
        os.environ["MEMRELAY_BLOCKS__PATHS"] = blocks
        deploy(folder / "memory", [QUICK])
        asyncio.run(deploy_slow(folder / "memory"))
        worker = start_worker(folder, str(server.socket_path))
        connection = BlockingConnection(str(server.socket_path))
        answers = Answers(str(server.socket_path))
        try:
            measure_writes(connection, answers, 3)
            before = measure_process(worker.pid)
            idle = describe(measure_writes(connection, answers, seconds))
            request_slow(connection, f"http://127.0.0.1:{service.server_port}/", 60 * AT_ONCE)
            measure_writes(connection, answers, wait_s + 1)
            answered = service.answered
            busy = describe(measure_writes(connection, answers, seconds))
            assert service.answered - answered >= AT_ONCE * int(seconds / wait_s - 1)
            after = measure_process(worker.pid)
        finally:
            worker.kill()
            worker.wait()
    ratio = busy["p95_ms"] / idle["p95_ms"]
    return {"idle": idle, "busy": busy, "ratio_p95": ratio, "before": before, "after": after}


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__, rounds=3)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--wait", type=float, default=2)
    given = parser.parse_args()
    rounds = []
    for _ in range(given.rounds):
        rounds.append(one := measure(given.seconds, given.wait))
        for phase in ("idle", "busy"):
            print(phase, ", ".join(f"{name} {value:.2f}" for name, value in one[phase].items()))
        print(f"p95 ratio {one['ratio_p95']:.2f}, process {one['before']}, then {one['after']}")
    write_result({"cores": os.cpu_count(), "rounds": rounds}, given.json)


if __name__ == "__main__":
    main()
