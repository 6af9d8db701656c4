"""The rerun of histories with ended workers, retries, steps in a second store, requests and public
swarms.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.rehearsal.copies import Copied, copy_stores
from memrelay.rehearsal.runner import DatedPlan, Side
from memrelay.rehearsal.setup import THEN
from memrelay.worker.without_bus.vectors import Vectors
from tests.rehearsal.live_worker import LIMITS, LiveWorker
from tests.rehearsal.test_rerun import make_stores
from tests.support.bundles import Json, make_agent, make_bundle, make_memory, make_relay
from tests.support.web_service import WebService

A, B = "instances/p/a", "instances/p/b"
WORDS = ["tea", "coffee", "meeting", "monday", "budget", "review", "café", "日本", "sugar", "milk"]
SORTS = ["a", "b", "both", "both twice", "key", "say", "ask", "tell", "public", "entry", "fact"]
CALLS = ["records.create", "records.update", "records.delete", "memories.create"]
# What a rerun must repeat. The numbers of records follow the order of the steps.
STATE = (
    "SELECT guid, scope, kind, source, tags, created_at, updated_at, key, owner, data, "
    "expires_at, in_context, thread, content FROM records ORDER BY guid"
)
PUBLIC: Json = {"swarms": [{"name": name, "visibility": "public"} for name in ("news", "echo")]}


class Service(WebService):
    """Never gives the same answer again."""

    def __init__(self) -> None:
        super().__init__()
        self.script.extend((200, b'{"number": %d}' % number) for number in range(100_000))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Service() as service:
        yield service.url


def make_pipeline(kind: str, url: str) -> Json:
    """Return the bundle of p. It publishes `/say` in news, keeps what it hears in echo, and asks a
    service for `/ask`.
    """
    bundle = make_stores(kind)
    ask = make_relay("ask", "^/ask (.*)")
    bot = make_agent(
        "bot", "http_request", {"url": f"{url}/{{{{ text }}}}"}, senders="dispatch_ask"
    )
    answers = make_memory("write", senders="bot", memory_id=A, alias="answers")
    say = make_relay("say", "^/say (.*)", to="news")
    heard = make_memory("write", senders="*", memory_id=A, alias="heard") | {
        "agent_rec_swarm": "echo"
    }
    return bundle | {"agents": [*bundle["agents"], say, heard, ask, bot, answers]} | PUBLIC


def make_other() -> Json:
    """Return the bundle of q, which answers news in echo, and publishes `/tell` there."""
    answer = make_relay("answer", "(.*)", senders="*", to="echo") | {"agent_rec_swarm": "news"}
    tell = make_relay("tell", "^/tell (.*)", to="echo")
    keep = make_memory("write", senders="*", memory_id="instances/q/memories") | {
        "agent_rec_swarm": "news"
    }
    return make_bundle("q", answer, tell, keep) | PUBLIC


def send_inputs(worker: LiveWorker, guids: list[str]) -> None:
    """Send a random input of each pipeline, or the call of an operation."""
    choice = worker.random.choice
    text = " ".join(worker.random.choices(WORDS, k=worker.random.randint(1, 8)))
    sort = choice([*SORTS, *CALLS])
    if sort in ("a", "b", "both", "say", "ask", "entry"):
        worker.send("p", f"/{sort} {text}")
    elif sort == "both twice":
        key = f"both {worker.now_ms}"
        for _ in range(2):
            worker.send("p", f"/both {text}", id=key)
    elif sort == "key":
        worker.send("p", f"/a {text}", id=f"key {worker.random.randint(1, 5)}")
    elif sort == "fact":
        worker.send("p", f"/fact {text.split()[0]} = {text}")
    elif sort == "tell":
        worker.send("q", f"/tell {text}")
    elif sort == "public":
        worker.send("p", text, swarm=choice(["echo", "news"]))
    elif sort == "memories.create":
        worker.call("p", sort, name=choice(["one", "two"]))
    elif sort == "records.create":
        worker.call("p", sort, choice([A, B]), content=text, kind="note")
    elif guids:
        given = {"content": text} if sort == "records.update" else {}
        worker.call("p", sort, choice([A, B]), guid=choice(guids), **given)


def live_on(worker: LiveWorker, rounds: int, url: str) -> None:
    """Send inputs and run them, with a deployment now and then while some are under way."""
    for _ in range(rounds):
        names = [name for name in (A, B) if worker.stores.exists(name)]
        guids = [guid for name in names for guid in list_guids(worker, name)]
        for _ in range(worker.random.randint(1, 6)):
            send_inputs(worker, guids)
        worker.run(worker.random.randint(1, 4))
        if worker.random.random() < 0.2:
            worker.deploy(make_pipeline(worker.random.choice(["note", "fact"]), url))
    worker.run()


def list_guids(worker: LiveWorker, name: str) -> list[str]:
    found = worker.stores.get(name).connection.execute("SELECT guid FROM records ORDER BY guid")
    return [guid for (guid,) in found]


def read_state(root: Path, name: str) -> list[Any]:
    path = store_path(root, name)
    if not path.exists():
        return []
    with closing(Store(name, path)) as store, store.transaction():
        store.records.flush()
        return store.connection.execute(STATE).fetchall()


def rerun(worker: LiveWorker, folder: Path, since_ms: int | None) -> tuple[Copied, Side]:
    """Run the kept inputs of p again under the bundles of the time."""
    folder.mkdir()
    names = worker.plans["p"].all_stores
    copied = copy_stores(worker.root, folder, "p", names, (since_ms, worker.now_ms + 1))
    plans = []
    for version in worker.versions["p"]:
        plan = Plan(check(version.source).accepted())
        plans.append(DatedPlan(version.from_ms, plan, len(plan.stores) > 1, frozenset()))
    with closing(Vectors(EmbeddingOptions("none"))) as vectors:
        side = Side(folder / THEN, plans, LIMITS, vectors, copied.results)
        side.run(copied.inputs)
        side.close()
    return copied, side


def find_decision(answer: bytes) -> str:
    """Return what a call has decided, or its error."""
    parsed = orjson.loads(answer)
    if "error" in parsed:
        return f"{parsed['error']['code']}: {parsed['error']['detail']}"
    output = parsed["output"]
    return str(output.get("action") or "") if isinstance(output, dict) else ""


def check_seed(seed: int, root: Path, url: str) -> Counter[str]:
    """Compare a history with its rerun. Return what has happened in it."""
    worker = LiveWorker(root / "live", [make_pipeline("note", url), make_other()], seed)
    live_on(worker, 6, url)
    since_ms = worker.now_ms + 1 if seed % 3 else None
    live_on(worker, 9, url)
    worker.close()
    copied, side = rerun(worker, root / "rerun", since_ms)

    assert not side.unrehearsed
    for name in worker.plans["p"].all_stores:
        assert read_state(root / "rerun" / THEN, name) == read_state(root / "live", name), name
    for number, kept in enumerate(copied.inputs):
        if kept.id in worker.answers:
            noted = side.noted[number].decisions if number in side.noted else []
            decisions = [one.action for one in noted]
            decided = find_decision(worker.answers[kept.id])
            assert decisions == ([decided] if decided else []), kept
    return Counter(worker.counts)


def test_the_rerun_of_a_history_with_ended_workers_equals_the_live_stores(
    tmp_path: Path, url: str
) -> None:
    happened = Counter[str]()
    for seed in range(2):
        happened += check_seed(seed, tmp_path / str(seed), url)

    sorts = "ended", "retried", "steps", "public", "requests"
    assert all(happened[sort] for sort in sorts), happened


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("hundred", range(10))
def test_the_reruns_of_many_histories_equal_the_live_stores(
    hundred: int, tmp_path: Path, url: str
) -> None:
    for seed in range(100 * hundred + 2, 100 * hundred + 102):
        check_seed(seed, tmp_path / str(seed), url)
