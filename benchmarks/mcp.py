"""usage: mcp.py [--rounds N] [--json FILE]. Measure the MCP server against its targets.

- a tool call over HTTP takes at most 1.5 times the REST request of the same operation (p50)
- the first use costs the web process at most 60 MB
- stdio is ready within 1.5 times the time of `python -c "import mcp"`
- 50 clients with 10 calls per second each: p99 at most 100 ms on two cores
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support.bundle import make_bundle
from benchmarks.support.harness import (
    CHECKOUT,
    make_parser,
    start_memrelay_processes,
    stop_all,
    temporary_bus,
    write_result,
)
from benchmarks.support.paced import one_by_one, paced

UID = "bench"
REVISION = "2026-07-28"
# The defaults of the tool, as the input of REST.
SEARCH = {"query": "which garden was flooded", "mode": "hybrid", "limit": 10}
CALLS, RECORDS = 300, 100
CLIENTS, CALLS_PER_CLIENT_S, PACED_S = 50, 10, 10.0
TARGETS = {"ratio": 1.5, "first_use_mb": 60.0, "stdio_ratio": 1.5, "p99_ms": 100.0}
Figures = dict[str, float]


def make_request(path: str, body: dict[str, Any], **headers: str) -> bytes:
    """Return the bytes of a POST with a JSON body."""
    data = json.dumps(body).encode()
    named = {
        "Host": "127.0.0.1",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Content-Length": str(len(data)),
    } | {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + data


def make_search() -> bytes:
    """Return the request of REST that `memory_search` corresponds to."""
    return make_request(f"/v1/pipelines/{UID}/records/search", SEARCH)


def make_call() -> bytes:
    """Return the request of a tool call."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    parameters = {
        "name": "memory_search",
        "arguments": SEARCH,
        "_meta": meta,
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters}
    return make_request(
        f"/mcp/{UID}",
        body,
        MCP_Protocol_Version=REVISION,
        Mcp_Method="tools/call",
        Mcp_Name="memory_search",
    )


def fill(port: int) -> None:
    """Create the records that are searched."""
    for number in range(RECORDS):
        content = f"Note {number}: the garden by the river was flooded in spring"
        one_by_one(port, make_request(f"/v1/pipelines/{UID}/records", {"content": content}), 1)


def measure_calls(port: int) -> Figures:
    """Return the p50 of a request of each kind in milliseconds."""
    requests = {"rest": make_search(), "mcp": make_call()}
    return {
        kind: 1e3 * statistics.median(one_by_one(port, request, CALLS))
        for kind, request in requests.items()
    }


def measure_clients(port: int) -> float:
    """Return the p99 of paced calls in milliseconds."""
    rate = CLIENTS * CALLS_PER_CLIENT_S
    times = asyncio.run(paced(port, make_call(), rate, PACED_S, connections=CLIENTS))
    return 1e3 * times[int(len(times) * 0.99)]


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise LookupError(f"process {pid} has no VmRSS")


def measure_stdio(folder: Path) -> Figures:
    """Return the seconds until stdio answers `initialize`, and those of an import of the SDK."""
    parameters = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "benchmark", "version": "1"},
    }
    greeting = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": parameters}
    command = [sys.executable, "-m", "memrelay.cli.main", "mcp", "--file", folder / "notes.db"]
    started_s = time.perf_counter()
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(greeting).encode() + b"\n")
        process.stdin.flush()
        assert b"serverInfo" in process.stdout.readline()
        ready_s = time.perf_counter() - started_s
        process.stdin.close()
    started_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import mcp"], check=True, cwd=folder)
    return {"ready_s": ready_s, "import_s": time.perf_counter() - started_s}


def report(rounds: list[Figures], first_use_mb: float) -> dict[str, Any]:
    """Print and return the medians of the rounds."""
    median = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
    median["ratio"] = median["mcp"] / median["rest"]
    median["stdio_ratio"] = median["ready_s"] / median["import_s"]
    median["first_use_mb"] = first_use_mb
    print(
        f"tool call p50 {median['mcp']:.2f} ms, REST p50 {median['rest']:.2f} ms, "
        f"ratio {median['ratio']:.2f}\n"
        f"first use +{first_use_mb:.0f} MB\n"
        f"stdio ready {median['ready_s']:.2f} s, import of the SDK {median['import_s']:.2f} s, "
        f"ratio {median['stdio_ratio']:.2f}\n"
        f"{CLIENTS} clients p99 {median['p99_ms']:.0f} ms"
    )
    for name, target in TARGETS.items():
        if median[name] > target:
            print(f"target missed: {name} {median[name]:.2f} > {target:g}")
    return {"cores": os.cpu_count(), "median": median, "rounds": rounds}


def main() -> None:
    """Run the benchmark."""
    given = make_parser(__doc__, rounds=3).parse_args()
    with temporary_bus("mcp") as (folder, bus):
        processes, port = start_memrelay_processes(
            folder, bus.socket_path, make_bundle(UID), ["worker", "web"]
        )
        try:
            fill(port)
            one_by_one(port, make_search(), CALLS)
            before_mb = rss_mb(processes[-1].pid)
            one_by_one(port, make_call(), CALLS)
            first_use_mb = rss_mb(processes[-1].pid) - before_mb
            rounds = [
                measure_calls(port) | {"p99_ms": measure_clients(port)} | measure_stdio(folder)
                for _ in range(given.rounds)
            ]
        finally:
            stop_all(processes)
    write_result(report(rounds, first_use_mb), given.json)


if __name__ == "__main__":
    main()
