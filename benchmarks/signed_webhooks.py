"""usage: signed_webhooks.py [--base CHECKOUT] [--rate N] [--seconds S] [--rounds N] [--json FILE].
Send signed webhooks of 1 KB at a fixed rate into records.

Prints, for each row, how long requests take until they are accepted (202) and until their record is
committed and its answer is on the channel of the swarm. Latency counts from the time at which a
request is due. Rows: Standard Webhooks in the checkout --base, in this one, and the profile of
GitHub. Each row has its own bus, worker and web server; all run on the same cores as the client.
"""

import asyncio
import hashlib
import hmac
import sqlite3
import statistics
import sys
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import hiredis
import orjson

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.support.harness import (
    CHECKOUT,
    make_parser,
    start_memrelay_processes,
    stop_all,
    temporary_bus,
    write_result,
)
from benchmarks.support.paced import paced
from memrelay.bus.client.resp import pack
from memrelay.bus.keys import swarm_key

UID, ALIAS = "bench", "hook"
SECRET = "whsec_" + b64encode(bytes(range(32))).decode()
WARM_UP_S, SETTLE_S = 3.0, 10.0
FILLER = "what was said about gardens, rivers and trains " * 19
Headers = dict[str, str]


def sign_standard(number: int, body: bytes) -> Headers:
    """Return the headers of Standard Webhooks."""
    ident, sent_at = f"msg_{number}", str(int(time.time()))
    text = f"{ident}.{sent_at}.".encode() + body
    digest = hmac.digest(b64decode(SECRET.removeprefix("whsec_")), text, "sha256")
    signature = "v1," + b64encode(digest).decode()
    return {"webhook-id": ident, "webhook-timestamp": sent_at, "webhook-signature": signature}


def sign_github(number: int, body: bytes) -> Headers:
    """Return the headers of GitHub."""
    signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    return {
        "X-GitHub-Event": "issues",
        "X-GitHub-Delivery": f"72d3162e-{number:012}",
        "X-Hub-Signature-256": f"sha256={signature}",
    }


def make_bundle(sender: str) -> dict[str, Any]:
    """Return a pipeline whose webhook writes records and publishes their guids."""
    hook = {
        "agent_class": "wf_agent",
        "agent_alias": ALIAS,
        "agent_name": ALIAS,
        "wf_agent_name": ALIAS,
        "agent_rec_swarm": "",
        "agent_send_swarm": "chat",
        "wf_publish_results": True,
        "wf_diagram_webhook": "memory_write",
        "wf_webhook_args": {"memory_id": f"instances/{UID}/notes"},
        "wf_webhook_secret": "env:BENCH_SECRET",
    }
    profile = {"wf_webhook_sender": sender} if sender else {}
    return {"pipeline_name": "bench", "pipeline_uid": UID, "agents": [hook | profile]}


class Requests:
    """Makes the requests, and knows when each was due."""

    def __init__(self, sign: Callable[[int, bytes], Headers], first: int = 0) -> None:
        self._sign, self._first = sign, first
        self.made_at: dict[int, float] = {}

    def make(self, number: int) -> bytes:
        """Return the request of a number, signed now."""
        number += self._first
        self.made_at[number] = asyncio.get_running_loop().time()
        body = orjson.dumps({"number": number, "note": FILLER})
        fields = self._sign(number, body) | {
            "Host": "127.0.0.1",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"POST /webhooks/{UID}/{ALIAS} HTTP/1.1\r\n{lines}\r\n".encode() + body


async def listen(socket: str, committed: dict[str, float]) -> None:
    """Note when the guid of each record is on the channel, until cancelled."""
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(pack("SUBSCRIBE", swarm_key(UID, "chat")))
    parser, loop = hiredis.Reader(), asyncio.get_running_loop()
    while True:
        parser.feed(await reader.read(1 << 18))
        while (message := parser.gets()) is not False:
            if message[0] == b"message":
                part = orjson.loads(message[2])["args"][0]
                committed[orjson.loads(part["text"])["guid"]] = loop.time()


def read_numbers(store: Path) -> dict[str, int]:
    """Return the number of the request that each record came from, by guid."""
    with sqlite3.connect(f"file:{store}?mode=ro", uri=True) as connection:
        rows = connection.execute("SELECT guid, content FROM records").fetchall()
    return {guid: orjson.loads(content)["number"] for guid, content in rows}


def measure(checkout: Path, sender: str, rate: float, seconds: float) -> dict[str, float]:
    """Measure one row: percentiles in ms. Raises AssertionError if a record is missing."""
    sign = sign_github if sender == "github" else sign_standard
    with temporary_bus("signed") as (folder, bus):
        processes, port = start_memrelay_processes(
            folder,
            bus.socket_path,
            make_bundle(sender),
            ["worker", "web"],
            checkout=checkout,
            BENCH_SECRET=SECRET,
        )
        try:
            accepted, committed = asyncio.run(_run(port, str(bus.socket_path), sign, rate, seconds))
        finally:
            stop_all(processes)
        (store,) = folder.rglob("notes.db")
        numbers = read_numbers(store)
    requests, seen = committed
    times = sorted(
        at - requests.made_at[numbers[guid]]
        for guid, at in seen.items()
        if numbers[guid] in requests.made_at
    )
    assert len(times) == len(accepted) == len(requests.made_at), (len(times), len(accepted))
    return {
        f"{name}_{share}": 1000 * found[int(len(found) * share / 100)]
        for name, found in (("accepted", accepted), ("committed", times))
        for share in (50, 99)
    }


async def _run(
    port: int, socket: str, sign: Callable[[int, bytes], Headers], rate: float, seconds: float
) -> tuple[list[float], tuple[Requests, dict[str, float]]]:
    """Return the latencies of the answers, and what is known of the commits."""
    seen: dict[str, float] = {}
    listener = asyncio.create_task(listen(socket, seen))
    warm_up = Requests(sign)
    await paced(port, warm_up.make, rate, WARM_UP_S)
    requests = Requests(sign, len(warm_up.made_at))
    accepted = await paced(port, requests.make, rate, seconds)
    until_s = time.monotonic() + SETTLE_S
    wanted = len(warm_up.made_at) + len(requests.made_at)
    while len(seen) < wanted and time.monotonic() < until_s:
        await asyncio.sleep(0.05)
    listener.cancel()
    return accepted, (requests, seen)


def report(rows: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Print and return the medians of the rounds."""
    result: dict[str, Any] = {"rounds": rows}
    for row, rounds in rows.items():
        medians = {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
        shown = "   ".join(f"{name} {value:6.1f} ms" for name, value in medians.items())
        print(f"{row:10} {shown}")
        result[row] = medians
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__, rounds=1)
    parser.add_argument("--base", type=Path, help="the checkout of an older commit")
    parser.add_argument("--rate", type=float, default=300.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args(arguments)
    wanted = {"standard": (CHECKOUT, ""), "github": (CHECKOUT, "github")}
    if given.base:
        wanted = {"base": (given.base.resolve(), "")} | wanted
    rows: dict[str, list[dict[str, float]]] = {row: [] for row in wanted}
    for _ in range(given.rounds):
        for row, (checkout, sender) in wanted.items():
            rows[row].append(measure(checkout, sender, given.rate, given.seconds))
    write_result(report(rows), given.json)


if __name__ == "__main__":
    main()
