"""usage: turns.py [--turns N] [--rounds N] [--json FILE]. Measure a turn of an agent without the
model.

A worker serves an agent with conversation memory, and a stub of the model answers at once. A graph
of LangGraph with AsyncSqliteSaver asks the same stub, turn by turn, so the ratio compares the same
load. Prints the median and the 95th percentile of both.
"""

import asyncio
import os
import statistics
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import aiohttp
import orjson

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, MessagesState, StateGraph

from benchmarks.restart import SILENT_S, start_worker
from benchmarks.support.blocking import BlockingConnection
from benchmarks.support.harness import make_parser, temporary_bus, write_result
from memrelay.bus.client.resp import pack
from memrelay.bus.keys import input_key
from memrelay.memory.control.catalog import Catalog
from memrelay.pipelines.check import check

UID, WARM_UP = "turns", 10
ANSWER = orjson.dumps({"choices": [{"message": {"role": "assistant", "content": "Yes."}}]})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer at once."""
        self.rfile.read(int(self.headers["Content-Length"]))
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(ANSWER)}\r\n\r\n"
        self.wfile.write(head.encode() + ANSWER)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def model_server() -> Iterator[str]:
    """Yield the base URL of a running stub."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()


async def deploy_agent(root: Path, url: str) -> None:
    """Deploy a pipeline with one agent."""
    agent = {
        "agent_class": "ai_agent",
        "agent_alias": "bot",
        "agent_name": "bot",
        "agent_rec_swarm": "chat",
        "agent_send_swarm": "chat",
        "agent_from": "User",
        "ai_url": url,
        "ai_model": "stub",
        "ai_use_context": True,
    }
    async with Catalog(root) as catalog:
        bundle = check({"pipeline_name": UID, "pipeline_uid": UID, "agents": [agent]}).accepted()
        await catalog.deploy(UID, UID, bundle.hash, bundle.source, time.time_ns() // 1_000_000)


class AgentTurns:
    """Turns of the agent, from the message to its answer."""

    def __init__(self, socket: str) -> None:
        self._input, self._answers = BlockingConnection(socket), BlockingConnection(socket)
        self._answers.send(pack("PSUBSCRIBE", "swarm:*"), 1)

    def run(self, text: str) -> float:
        """Return the time of one turn in ms."""
        part = {"username": "user", "text": text, "type": "text/plain"}
        data = orjson.dumps({"from": "User", "id": "user", "args": [part]})
        started_s = time.perf_counter()
        self._input.send(pack("XADD", input_key(UID), "*", "swarm", "chat", "data", data), 1)
        while b'"from":"bot"' not in self._answers.receive(SILENT_S)[3]:
            pass
        return 1000 * (time.perf_counter() - started_s)


async def run_plain(graph: Any, text: str) -> float:
    """Return the time of one turn of plain LangGraph in ms."""
    started_s = time.perf_counter()
    given = {"messages": [HumanMessage(text)]}
    await graph.ainvoke(given, {"configurable": {"thread_id": "t"}})
    return 1000 * (time.perf_counter() - started_s)


def build_plain(session: aiohttp.ClientSession, url: str, saver: AsyncSqliteSaver) -> Any:
    """Return a graph that asks the model once."""

    async def ask(state: MessagesState) -> dict[str, Any]:
        messages = [{"role": one.type, "content": one.content} for one in state["messages"]]
        async with session.post(f"{url}/chat/completions", json={"messages": messages}) as answer:
            said = orjson.loads(await answer.read())["choices"][0]["message"]
        return {"messages": [AIMessage(said["content"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("ask", ask)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    return graph.compile(checkpointer=saver)


async def measure(turns: int) -> dict[str, Any]:
    """Return the times of one round."""
    os.environ["MEMRELAY_AGENTS__PRIVATE"] = "true"
    agent_ms, plain_ms = [], []
    with temporary_bus("turns") as (folder, server), model_server() as url:
        await deploy_agent(folder / "memory", url)
        worker = start_worker(folder, str(server.socket_path))
        agent = AgentTurns(str(server.socket_path))
        try:
            async with (
                aiohttp.ClientSession() as session,
                AsyncSqliteSaver.from_conn_string(str(folder / "plain.db")) as saver,
            ):
                graph = build_plain(session, url, saver)
                for number in range(WARM_UP + turns):
                    agent_ms.append(await asyncio.to_thread(agent.run, f"question {number}"))
                    plain_ms.append(await run_plain(graph, f"question {number}"))
        finally:
            worker.kill()
            worker.wait()
    agent_ms, plain_ms = agent_ms[WARM_UP:], plain_ms[WARM_UP:]
    ratio = statistics.median(agent_ms) / statistics.median(plain_ms)
    return {"agent": describe(agent_ms), "plain": describe(plain_ms), "ratio_p50": ratio}


def describe(times: list[float]) -> dict[str, float]:
    """Return p50 and p95."""
    return {"p50_ms": statistics.median(times), "p95_ms": sorted(times)[int(len(times) * 0.95)]}


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__, rounds=3)
    parser.add_argument("--turns", type=int, default=100)
    given = parser.parse_args()
    rounds = []
    for _ in range(given.rounds):
        rounds.append(one := asyncio.run(measure(given.turns)))
        for name in ("agent", "plain"):
            print(name, ", ".join(f"{key} {value:.1f}" for key, value in one[name].items()))
        print(f"p50 ratio {one['ratio_p50']:.2f}")
    write_result({"cores": os.cpu_count(), "rounds": rounds}, given.json)


if __name__ == "__main__":
    main()
