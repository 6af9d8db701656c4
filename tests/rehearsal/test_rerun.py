"""The rerun of the bundles of the time equals the live stores, whatever happened to them."""

import random
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.store import Store
from memrelay.rehearsal.setup import THEN
from tests.rehearsal.helpers import LivePipeline
from tests.support.bundles import Json, make_agent, make_bundle, make_memory, make_relay

WORDS = ["tea", "coffee", "meeting", "monday", "budget", "review", "café", "日本", "sugar", "milk"]
SORTS = ["write"] * 3 + ["key", "create", "update", "delete", "tag", "memory", "entry", "fact"]
A, B = "instances/p/a", "instances/p/b"
STATE = (
    "SELECT guid, number, scope, kind, source, tags, created_at, updated_at, key, owner, data, "
    "expires_at, in_context, thread, seq, content FROM records ORDER BY guid"
)


def make_stores(kind: str) -> Json:
    """Return a bundle in which `/a` writes to one store, `/b` to another, and `/both` to both.

    `/entry` writes to a named memory, and `/fact` sets a fact.
    """
    relays = [make_relay(name, f"^/(?:{name}|both) (.*)", flags="s") for name in "ab"]
    writers = [
        make_memory(
            "write", senders=f"dispatch_{one}", memory_id=f"instances/p/{one}", alias=one, kind=kind
        )
        for one in "ab"
    ]
    entry = make_agent(
        "entry",
        "memory_entry_write",
        {"memory_id": "instances/p/memories", "memory": "facts", "update_threshold": 0.5},
        senders="dispatch_entry",
    )
    fact = make_agent(
        "fact", "remember", {"memory_id": "instances/p/stores/facts"}, senders="dispatch_fact"
    )
    relays += [make_relay("entry", "^/entry (.*)"), make_relay("fact", "^/fact (.*)")]
    return make_bundle("p", *relays, *writers, entry, fact)


class History:
    """Random inputs of a pipeline, in random batches, with repeats, crashes and deploys."""

    def __init__(self, live: LivePipeline, seed: int) -> None:
        self.live, self.random = live, random.Random(seed)
        self.guids: list[str] = []

    def live_on(self, batches: int) -> None:
        for _ in range(batches):
            entries = [self.make_input() for _ in range(self.random.randint(1, 6))]
            outcomes = self.live.run(*entries)
            self.note(outcomes)
            if self.random.random() < 0.2:  # a crash before the acknowledgement
                self.live.run(*entries)
            if self.random.random() < 0.05:
                self.live.deploy(make_stores(self.random.choice(["note", "fact"])))

    def note(self, outcomes: Any) -> None:
        for outcome in outcomes:
            for _, data in outcome.messages:
                text = orjson.loads(data)["args"][0]["text"]
                if text.startswith('{"guid"'):
                    self.guids.append(orjson.loads(text)["guid"])

    def make_input(self) -> Any:
        text = " ".join(self.random.choices(WORDS, k=self.random.randint(1, 8)))
        guid = self.random.choice(self.guids) if self.guids else "none"
        store = self.random.choice([A, B])
        sort = self.random.choice(SORTS)
        if sort == "write":
            return self.live.entry(f"/{self.random.choice(['a', 'b', 'both'])} {text}")
        if sort == "key":
            return self.live.entry(f"/a {text}", id=f"key {self.random.randint(1, 5)}")
        if sort == "create":
            return self.live.call("records.create", store, content=text, kind="note")
        if sort == "update":
            return self.live.call("records.update", store, guid=guid, content=text)
        if sort == "tag":
            return self.live.call("records.update", store, guid=guid, tags=[text.split()[0]])
        if sort in ("entry", "fact"):
            text = f"{text.split()[0]} = {text}" if sort == "fact" else text
            return self.live.entry(f"/{sort} {text}")
        if sort == "memory":
            memory = self.random.choice(["one", "two"])
            return self.live.call("memories.create", "", name=memory)
        return self.live.call(f"records.{sort}", store, guid=guid)


def read_state(root: Path, memory_id: str) -> list[Any]:
    """Return all records. A step in a second store may run later there than in the rerun."""
    path = store_path(root, memory_id)
    if not path.exists():
        return []
    with closing(Store(memory_id, path)) as store, store.transaction():
        store.records.flush()
        return store.connection.execute(STATE).fetchall()


def check_seed(seed: int, root: Path) -> None:
    live = LivePipeline(root / "live", make_stores("note"))
    history = History(live, seed)
    history.live_on(10)
    since_ms = live.now_ms + 1 if seed % 3 else None
    history.live_on(15)
    report = live.rehearse(root / "rehearsal", make_stores("note"), since_ms)
    names = live.plan.all_stores
    live.close()

    assert report["status"] == "done" and not report["inputs"]["not_rehearsed"], report
    for name in names:
        assert read_state(root / "rehearsal" / THEN, name) == read_state(root / "live", name), name


@pytest.mark.parametrize("seed", range(6))
def test_the_rerun_equals_the_live_stores(seed: int, tmp_path: Path) -> None:
    check_seed(seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("hundred", range(3))
def test_the_reruns_of_many_histories_equal_the_live_stores(hundred: int, tmp_path: Path) -> None:
    for seed in range(100 * hundred + 6, 100 * hundred + 106):
        check_seed(seed, tmp_path / str(seed))


def test_inputs_that_publish_more_than_a_batch_may_are_all_rehearsed(tmp_path: Path) -> None:
    writer = make_memory("write", senders="dispatch_write", memory_id=A)
    bundle = make_bundle("p", make_relay("write", "^/write (.*)"), writer)
    live = LivePipeline(tmp_path / "live", bundle)
    for _ in range(3):
        live.run(*[live.entry(f"/write {'tea ' * 1000}") for _ in range(25)])
    live.close()

    report = live.rehearse(tmp_path / "r", bundle)

    assert report["inputs"]["rehearsed"] == 75 and report["equal"]
