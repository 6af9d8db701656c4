"""usage: console.py [--records N] [--rounds N] [--calls N] [--polls N] [--embedding MODEL]
[--json FILE]. Measure the pages of the console in a running product with long records.

1. The first render of each page, next to the reads that it makes, over the same bus and without the
   web server. Both take turns. Bound: 1.5 times their p50. The reads of the page Overview are those
   of the log, the dead letters, the status and the activity; the last two are shared for a second,
   as in the product. A plain page of the same records is a further reference.
2. The size and the time of each page after a pause, without anything shared. Bounds: 300 kB and
   150 ms.
3. Processor time of the web process for each poll that it answers with 304. Polls of many pages,
   which share a read of the pipeline's state; polls that each read it; and polls of one page,
   once a second, when the caches of the processor have other contents. Bound: 2 ms.
4. The bytes of all assets. Bound: 140,000.
"""

import asyncio
import html
import os
import re
import statistics
import sys
import time
from argparse import Namespace
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial, reduce
from http.client import HTTPConnection
from operator import getitem
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, Self

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.recall_latency import word
from benchmarks.support.bundle import make_bundle
from benchmarks.support.console_store import STORE, TIMEOUT_S, UID, Guids, fill
from benchmarks.support.harness import (
    make_parser,
    start_memrelay_processes,
    start_peer,
    stop_all,
    temporary_bus,
    write_result,
)
from benchmarks.support.question_log import Stages, record_questions
from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.client.url import Address
from memrelay.bus.request import NewCall, Requester
from memrelay.bus.streams.log import read_log_backward
from memrelay.memory.control.catalog import Catalog
from memrelay.pipelines.check import check
from memrelay.web.api.status import read_status
from memrelay.web.console.activity import read_activity
from memrelay.web.console.agents import list_agents
from memrelay.web.console.frame import ASSETS
from memrelay.web.console.graph import draw_graph
from memrelay.web.server.cached_read import CachedRead
from memrelay.web.trace.dead_letter_rows import read_rows

MAX_RATIO, MAX_BYTES, MAX_PAGE_MS, MAX_POLL_MS, MAX_ASSETS = 1.5, 300_000, 150.0, 2.0, 140_000
QUERY = "+".join(map(word, (3, 40, 700)))
POLLS = ("many", "fresh", "one")
RENDERS = ("page", "reads", "ratio")
HOME, OVERVIEW, LOG_ROWS = "home", "overview", 50
# Pages with a counterpart in the plain program, and its address.
PLAIN = {"memory": "/", "search": f"/?q={QUERY}"}
# Shared reads are older after this pause.
PAUSE_S = 1.05
NONE: Mapping[str, str] = MappingProxyType({})
PARTS = re.compile(r'data-refresh="([^"]+)"')
Read = Callable[[], Awaitable[object]]
Figures = dict[str, float]


def list_pages(guids: Guids) -> dict[str, str]:
    """Return the addresses of the measured pages."""
    base, store = f"/pipelines/{UID}", f"store={STORE}"
    return {
        HOME: "/",
        "memory": f"{base}/memory",
        "long texts": f"{base}/memory?kind=article",
        "longest texts": f"{base}/memory?kind=book",
        "search": f"{base}/memory?q={QUERY}",
        "record": f"{base}/memory/{guids.note}?{store}",
        "longest record": f"{base}/memory/{guids.book}?{store}",
        OVERVIEW: base,
        "named memories": f"{base}/memories",
    }


class Place(NamedTuple):
    """The socket of the bus, the folder of the stores, and the id of the web process."""

    socket: Path
    root: Path
    process: int


class Answer(NamedTuple):
    """An answer to a request."""

    status: int
    body: bytes
    tag: str
    ms: float


class Site:
    """A web server, with one open connection."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_S)

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        """Return the answer to a request. Raises ValueError: it failed."""
        started_s = time.perf_counter()
        self._connection.request("GET", path, headers=headers or {})
        got = self._connection.getresponse()
        body, ms = got.read(), 1e3 * (time.perf_counter() - started_s)
        if got.status not in (200, 304):
            raise ValueError(f"GET {path}: {got.status} {body[:300]!r}")
        return Answer(got.status, body, got.headers.get("ETag", ""), ms)

    async def fetch(self, path: str) -> Answer:
        """Return the answer to a request, without blocking the loop."""
        return await asyncio.to_thread(self.get, path)


class Reads:
    """The reads of the pages, over the bus."""

    def __init__(self, socket: Path, root: Path) -> None:
        self._address, self._stack = Address(path=str(socket)), AsyncExitStack()
        self._requester, self._catalog = Requester(self._address), Catalog(root)
        self._line = ReconnectingConnection(self._address)
        bundle = check(make_bundle(UID)).bundle
        assert bundle is not None
        self._bundle, agents, letters = bundle, list_agents(bundle), self._catalog.dead_letters
        self._status = CachedRead(partial(read_status, self._catalog, self._line))
        self._activity = CachedRead(
            partial(read_activity, self._line, letters, bundle, agents, draw_graph(agents))
        )

    async def __aenter__(self) -> Self:
        for one in (self._requester, self._catalog, self._line):
            await self._stack.enter_async_context(one)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def repeat(self, stages: Stages) -> None:
        """Repeat the calls of a page."""
        for stage in stages:
            await asyncio.gather(*map(self._call, stage))

    async def _call(self, call: NewCall) -> None:
        answer = await self._requester.call(call, TIMEOUT_S)
        assert "output" in answer, answer

    async def read_home(self) -> None:
        """Read the status, as the first page does."""
        await self._status.get()

    async def read_overview(self) -> None:
        """Read what the page of a pipeline shows. It calls no operations."""
        letters = self._catalog.dead_letters
        await self._status.get()
        await self._activity.get()
        await read_log_backward(
            self._line, self._bundle.swarm_owner("chat"), "chat", limit=LOG_ROWS
        )
        await read_rows(letters, await letters.latest(UID, "chat", limit=LOG_ROWS))


async def prepare(site: Site, socket: Path, reads: Reads, pages: dict[str, str]) -> dict[str, Read]:
    """Return what repeats the reads of each page."""
    found: dict[str, Read] = {}
    for name, path in pages.items():
        await site.fetch(path)
        stages = await record_questions(socket, UID, partial(site.fetch, path))
        # These pages call no operations, or only once for several views.
        others = {HOME: reads.read_home, OVERVIEW: reads.read_overview}
        found[name] = partial(reads.repeat, stages) if stages else others[name]
    return found


async def compare(site: Site, pages: dict[str, str], reads: dict[str, Read], calls: int) -> Any:
    """Return the p50 of each page and of its reads in ms, taken in turn, and their ratio."""
    found = {}
    for name, path in pages.items():
        rendered, read = list[float](), list[float]()
        for _ in range(calls):
            # Blocks the loop, in which nothing else runs now.
            rendered.append(site.get(path).ms)
            started_s = time.perf_counter()
            await reads[name]()
            read.append(1e3 * (time.perf_counter() - started_s))
        page_ms, reads_ms = statistics.median(rendered), statistics.median(read)
        found[name] = {"page": page_ms, "reads": reads_ms, "ratio": page_ms / reads_ms}
    return found


def compare_plain(site: Site, plain: Site, pages: dict[str, str], calls: int) -> Any:
    """Return the p50 of a page and of the plain one in ms, taken in turn."""
    found = {}
    for name, path in PLAIN.items():
        pairs = [(site.get(pages[name]).ms, plain.get(path).ms) for _ in range(calls)]
        page_ms, plain_ms = map(statistics.median, zip(*pairs, strict=True))
        found[name] = {"page": page_ms, "plain": plain_ms, "ratio": page_ms / plain_ms}
    return found


class Poller:
    """Polls the parts of an open page. `process` is the id of the web process."""

    def __init__(self, site: Site, process: int) -> None:
        self._site, self._process = site, process

    def measure(self, path: str, polls: int) -> dict[str, Any]:
        """Measure a page after a pause, and its parts: once a second, and without a pause, when
        each reads the state of the pipeline and when they share a read."""
        time.sleep(PAUSE_S)
        page = self._site.get(path)
        parts = [html.unescape(part) for part in PARTS.findall(page.body.decode())]
        tags = {part: self._site.get(part).tag for part in parts}
        return {
            "ms": page.ms,
            "bytes": len(page.body),
            "one": self._poll(tags, polls, PAUSE_S),
            "fresh": self._poll(tags, 20 * polls, 0, {"Cache-Control": "no-cache"}),
            "many": self._poll(tags, 20 * polls, 0),
        }

    def _poll(
        self, tags: dict[str, str], times: int, pause_s: float, more: Mapping[str, str] = NONE
    ) -> Figures:
        """Return the processor time of a poll in ms, and the share of answers 304."""
        before_s, unchanged = read_processor_s(self._process), 0
        for _ in range(times):
            time.sleep(pause_s)
            for part, tag in tags.items():
                answer = self._site.get(part, {"If-None-Match": tag, **more})
                unchanged += answer.status == 304
                tags[part] = answer.tag
        took_s, count = read_processor_s(self._process) - before_s, times * len(tags)
        return {"ms": 1e3 * took_s / count, "unchanged": unchanged / count}


def read_processor_s(process: int) -> float:
    """Return the processor time of all threads of a process. Linux counts it in ns there."""
    files = Path(f"/proc/{process}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in files) / 1e9


def report(rounds: list[dict[str, Any]], pages: dict[str, str]) -> dict[str, Any]:
    """Print the medians of the rounds next to their bounds, and return all figures."""
    print(f"{'page':15} {'p50':>7} {'reads':>7} ratio  {'after a pause':>13} {'size':>10}  polls")
    for name in pages:
        page, reads, ratio = (_median(rounds, "renders", name, key) for key in RENDERS)
        pause_ms, size = (_median(rounds, "pages", name, key) for key in ("ms", "bytes"))
        polls = ", ".join(f"{_median(rounds, 'pages', name, key, 'ms'):.2f}" for key in POLLS)
        unchanged = min(each["pages"][name]["many"]["unchanged"] for each in rounds)
        print(
            f"{name:15} {page:4.1f} ms {reads:4.1f} ms {ratio:5.2f}  {pause_ms:10.1f} ms "
            f"{size / 1e3:7.1f} kB  {polls} ms ({unchanged:.0%} unchanged)"
        )
    for name in PLAIN:
        ratio, plain_ms = (_median(rounds, "plain", name, key) for key in ("ratio", "plain"))
        print(f"{name:15} {ratio:.2f} times the plain page, which takes {plain_ms:.1f} ms")
    assets = sum(
        len(asset.body) for name, asset in ASSETS.items() if not name.startswith("editor/")
    )
    print(
        "polls: with a shared read, with a new read, of one page\n"
        f"bounds: ratio {MAX_RATIO}, {MAX_PAGE_MS:g} ms, {MAX_BYTES / 1e3:g} kB, a poll "
        f"{MAX_POLL_MS:g} ms; assets {assets:,} bytes of {MAX_ASSETS:,}"
    )
    return {"cores": os.cpu_count(), "assets": assets, "rounds": rounds}


def _median(rounds: Sequence[dict[str, Any]], *keys: str) -> float:
    """Return the median of a figure, which is nested in each round."""
    figures: list[Any] = [reduce(getitem, keys, one) for one in rounds]
    return float(statistics.median(figures))


async def measure(site: Site, plain: Site, place: Place, options: Namespace) -> dict[str, Any]:
    """Fill the product, measure it and print the figures. Return all figures."""
    pages = list_pages(await fill(place.socket, options.records))
    rounds = []
    async with Reads(place.socket, place.root) as reads:
        known = await prepare(site, place.socket, reads, pages)
        for number in range(options.rounds):
            print(
                f"round {number + 1} of {options.rounds}, load {os.getloadavg()[0]:.1f}", flush=True
            )
            renders = await compare(site, pages, known, options.calls)
            one = {"renders": renders, "plain": compare_plain(site, plain, pages, options.calls)}
            poller = Poller(site, place.process)
            one["pages"] = {
                name: poller.measure(path, options.polls) for name, path in pages.items()
            }
            rounds.append(one)
    return report(rounds, pages)


def run(options: Namespace) -> dict[str, Any]:
    """Start the product and the plain program, and return all figures."""
    processes = []
    with temporary_bus("console") as (folder, bus):
        try:
            started, port = start_memrelay_processes(
                folder,
                bus.socket_path,
                make_bundle(UID),
                ["worker", "web"],
                MEMRELAY_EMBEDDING__MODEL=options.embedding,
            )
            processes += started
            plain, plain_port = start_peer("plain_console.py", str(options.records))
            processes.append(plain)
            place = Place(bus.socket_path, folder / "memory", started[-1].pid)
            return asyncio.run(measure(Site(port), Site(plain_port), place, options))
        finally:
            stop_all(processes)


def main() -> None:
    """Run the benchmark."""
    parser = make_parser(__doc__, rounds=3)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--polls", type=int, default=5)
    parser.add_argument("--embedding", default="none", help="none, or local: with vectors")
    options = parser.parse_args()
    write_result(run(options), options.json)


if __name__ == "__main__":
    main()
