"""usage: agents.py [--turns N] [--seconds S] [--wait S] [--rounds N] [--json FILE]. Measure the
block `agent` with a stub of the model.

1. A turn of a conversation with memory, without the model's time, next to plain LangGraph with
   AsyncSqliteSaver in the same run. Both take turns, and a bare request measures the stub.
2. Writes of another pipeline, while 8 turns wait for a model that answers after 2 s.
3. Memory of a worker with agents, and of one without, which loads no part of LangGraph.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import orjson

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.deferred_calls import AT_ONCE, QUICK, describe, measure_process, measure_writes
from benchmarks.restart import Answers, deploy, start_worker
from benchmarks.support.blocking import BlockingConnection
from benchmarks.support.harness import make_parser, start_peer, temporary_bus, write_result
from benchmarks.support.plain_agent import PlainAgent, open_plain_agent
from memrelay.bus.client.resp import pack
from memrelay.bus.keys import input_key
from memrelay.memory.control.catalog import Catalog
from memrelay.pipelines.check import check

AGENT = "talk"
PROMPT = "You are the assistant of a shop for garden tools. Answer in two sentences."
WARM_UP = 5
HEAVY = ("langgraph", "langchain", "langsmith")


@contextmanager
def model_stub(wait_s: float) -> Iterator[str]:
    """Yield the address of a running stub of the model."""
    process, port = start_peer("model_stub.py", str(wait_s))
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


async def deploy_agent(root: Path, url: str) -> None:
    """Deploy the pipeline with the agent `bot`."""
    agent = {
        "agent_class": "wf_agent",
        "agent_alias": "bot",
        "agent_name": "bot",
        "agent_rec_swarm": "chat",
        "agent_send_swarm": "chat",
        "agent_from": "User",
        "wf_diagram_webhook": "agent",
        "wf_publish_results": True,
        "wf_webhook_args": {
            "url": f"{url}/v1",
            "model": "stub",
            "system_prompt": PROMPT,
            "conversation_memory": True,
        },
    }
    async with Catalog(root) as catalog:
        bundle = check({"pipeline_name": AGENT, "pipeline_uid": AGENT, "agents": [agent]})
        accepted = bundle.accepted()
        now_ms = time.time_ns() // 1_000_000
        await catalog.deploy(AGENT, AGENT, accepted.hash, accepted.source, now_ms)


def request_turns(connection: BlockingConnection, text: str, users: Sequence[str]) -> None:
    """Append a message of each user to the input of the agent."""
    commands = []
    for user in users:
        part = {"username": user, "text": text, "type": "text/plain"}
        data = orjson.dumps({"from": "User", "id": "user", "args": [part]})
        commands.append(pack("XADD", input_key(AGENT), "*", "swarm", "chat", "data", data))
    connection.send(b"".join(commands), len(commands))


@contextmanager
def worker_of(folder: Path, socket: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a running worker. `environment` is added to its variables."""
    os.environ.update(environment, MEMRELAY_AGENTS__PRIVATE="true")
    worker = start_worker(folder, socket)
    try:
        yield worker
    finally:
        worker.kill()
        worker.wait()
        for name in environment:
            del os.environ[name]


def text_of(turn: int) -> str:
    """Return the user's message, which differs in each turn."""
    return " ".join(f"word{(turn + n) % 14}_{turn * n % 97}" for n in range(15))


class Timer:
    """Collects the milliseconds of each program's turns."""

    def __init__(self) -> None:
        self._times: dict[str, list[float]] = {}

    @contextmanager
    def of(self, name: str) -> Iterator[None]:
        """Measure a turn of a program."""
        began_s = time.perf_counter()
        yield
        self._times.setdefault(name, []).append(1000 * (time.perf_counter() - began_s))

    def clear(self) -> None:
        """Forget the turns that warmed up the programs."""
        self._times.clear()

    def beyond_model(self) -> dict[str, dict[str, float]]:
        """Return the figures of each program without the median time of a bare request."""
        model_ms = statistics.median(self._times.pop("model"))
        figures = {"model": {"p50_ms": model_ms}}
        for name, times in self._times.items():
            figures[name] = describe(sorted(one - model_ms for one in times))
        return figures


def measure_turns(turns: int) -> dict[str, Any]:
    """Return the time of a turn of each program, and the ratios to plain LangGraph."""
    with (
        model_stub(0) as url,
        temporary_bus("agents") as (folder, server),
        asyncio.Runner() as runner,
    ):
        (folder / "memory").mkdir()
        socket = str(server.socket_path)
        runner.run(deploy_agent(folder / "memory", url))
        stack = AsyncExitStack()
        peers: dict[str, PlainAgent] = {}
        for durability in ("async", "exit"):
            opened = open_plain_agent(f"{url}/v1", PROMPT, folder / f"{durability}.db", durability)
            peers[f"plain, {durability}"] = runner.run(stack.enter_async_context(opened))
        with worker_of(folder, socket):
            figures = _take_turns(socket, peers, runner, turns)
        runner.run(stack.aclose())
    own = figures["memrelay"]
    for name in peers:
        for part in ("p50_ms", "p95_ms"):
            figures[name][f"ratio_{part[:3]}"] = own[part] / figures[name][part]
    return figures


def _take_turns(
    socket: str, peers: dict[str, PlainAgent], runner: asyncio.Runner, turns: int
) -> dict[str, Any]:
    """Let the programs take turns."""
    connection, answers, timer = BlockingConnection(socket), Answers(socket), Timer()
    plain = next(iter(peers.values()))
    for turn in range(-WARM_UP, turns):
        if turn == 0:
            timer.clear()
        text = text_of(turn)
        with timer.of("memrelay"):
            request_turns(connection, text, ["ada"])
            answers.wait([AGENT], "bot")
        for name, peer in peers.items():
            with timer.of(name):
                runner.run(peer.answer(text, "ada"))
        with timer.of("model"):
            runner.run(plain.post(plain.body_of([])))
    return timer.beyond_model()


def measure_waiting(seconds: float, wait_s: float) -> dict[str, Any]:
    """Return the latency of another pipeline's writes, without turns and with turns that wait."""
    with model_stub(wait_s) as url, temporary_bus("agents") as (folder, server):
        socket = str(server.socket_path)
        deploy(folder / "memory", [QUICK])
        asyncio.run(deploy_agent(folder / "memory", url))
        connection, answers = BlockingConnection(socket), Answers(socket)
        with worker_of(folder, socket):
            request_turns(connection, "hello", ["first"])  # loads LangGraph
            answers.wait([AGENT], "bot")
            measure_writes(connection, answers, 2)
            idle = describe(measure_writes(connection, answers, seconds))
            rounds = int(seconds / wait_s) + 4
            request_turns(connection, "hello", [f"u{n}" for n in range(rounds * AT_ONCE)])
            measure_writes(connection, answers, wait_s + 1)
            answered = _count_answers(url)
            busy = describe(measure_writes(connection, answers, seconds))
            answered = _count_answers(url) - answered
        assert answered >= AT_ONCE * int(seconds / wait_s - 1), "the turns ended too early"
    return {"idle": idle, "busy": busy, "ratio_p95": busy["p95_ms"] / idle["p95_ms"]}


def _count_answers(url: str) -> int:
    with urlopen(f"{url}/answered") as answer:
        return int(answer.read())


def measure_memory(*, with_agent: bool) -> dict[str, Any]:
    """Return the memory of a worker after some messages, and which heavy packages it loaded."""
    with model_stub(0) as url, temporary_bus("agents") as (folder, server):
        socket = str(server.socket_path)
        deploy(folder / "memory", [QUICK])
        if with_agent:
            asyncio.run(deploy_agent(folder / "memory", url))
        connection, answers = BlockingConnection(socket), Answers(socket)
        # Python writes the name of each imported module to the log.
        with worker_of(folder, socket, PYTHONPROFILEIMPORTTIME="1") as worker:
            measure_writes(connection, answers, 2)
            for turn in range(20 if with_agent else 0):
                request_turns(connection, text_of(turn), ["ada"])
                answers.wait([AGENT], "bot")
            measured = measure_process(worker.pid)
        imported = (folder / "worker.log").read_text()
    return measured | {"loaded": [name for name in HEAVY if f" {name}" in imported]}


def measure(turns: int, seconds: float, wait_s: float) -> dict[str, Any]:
    """Return the figures of one round."""
    return {
        "load": os.getloadavg()[0],
        "turn": measure_turns(turns),
        "waiting": measure_waiting(seconds, wait_s),
        "memory": {
            "without_agent": measure_memory(with_agent=False),
            "with_agent": measure_memory(with_agent=True),
        },
    }


def report(one: dict[str, Any]) -> None:
    """Print a round."""
    print(f"load {one['load']:.1f}")
    for name, figures in (*one["turn"].items(), *list(one["waiting"].items())[:2]):
        print(f"{name:13}", ", ".join(f"{key} {value:.2f}" for key, value in figures.items()))
    print(f"writes while turns wait: p95 ratio {one['waiting']['ratio_p95']:.2f}")
    for name, found in one["memory"].items():
        loaded = ", ".join(found["loaded"]) or "none of " + ", ".join(HEAVY)
        print(f"{name:13} {found['memory_mb']:.1f} MB, loaded: {loaded}", flush=True)


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__, rounds=3)
    parser.add_argument("--turns", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--wait", type=float, default=2)
    given = parser.parse_args()
    rounds = []
    for _ in range(given.rounds):
        rounds.append(measure(given.turns, given.seconds, given.wait))
        report(rounds[-1])
    write_result({"cores": os.cpu_count(), "rounds": rounds}, given.json)


if __name__ == "__main__":
    main()
