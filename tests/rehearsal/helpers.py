"""A pipeline without a bus whose stores keep its inputs, and rehearsals of it in this process."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from memrelay.bus.codec import encode
from memrelay.bus.message import new_message
from memrelay.memory.engine.stores import OpenStores
from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.rehearsal.child import rehearse
from memrelay.rehearsal.copies import copy_stores
from memrelay.rehearsal.setup import DeployedBundle, Setup, write_setup
from memrelay.worker.run.inputs import Entry, Work, from_pending
from memrelay.worker.run.store_features import find_features
from tests.support.bundles import Json
from tests.worker.test_batch import make_batch

START_MS = 1_796_000_000_000


class LivePipeline:
    """Runs inputs in batches, as a worker does. Each input comes a second after the one before."""

    def __init__(self, root: Path, bundle: Json) -> None:
        self.root, self.now_ms = root, START_MS
        self.versions: list[DeployedBundle] = []
        self.stores = OpenStores(root, 20)
        self.stores.clock = lambda: self.now_ms
        self.plan: Plan
        self.deploy(bundle)

    def deploy(self, bundle: Json) -> None:
        """Make a bundle the next version."""
        checked = check(bundle | {"inputs_days": 7}).accepted()
        self.plan = Plan(checked)
        version = len(self.versions) + 1
        self.now_ms += 1000
        self.versions.append(DeployedBundle(version, self.now_ms, checked.hash, checked.source))
        self.stores.compose(find_features([self.plan], self.stores))

    def entry(self, text: str, *, swarm: str = "chat", **fields: str) -> Entry:
        """Return the next input with a text."""
        self.now_ms += 1000
        message = new_message("User", "me", text, username="User", now_ms=self.now_ms)
        more = [part.encode() for pair in fields.items() for part in pair]
        data = [b"swarm", swarm.encode(), b"data", encode(message), *more]
        return Entry(f"{self.now_ms}-0", self.plan, data)

    def call(self, operation: str, store: str = "", **given: Any) -> Entry:
        """Return the next input: the call of an operation."""
        self.now_ms += 1000
        fields = [b"op", operation.encode(), b"data", orjson.dumps(given), b"actor", b"test"]
        fields += [b"store", store.encode()] if store else []
        return Entry(f"{self.now_ms}-0", self.plan, fields)

    def run(self, *work: Work) -> list[Any]:
        """Run inputs in one batch, and then what follows from them."""
        outcomes, waiting = [], list[Work](work)
        while waiting:
            result = make_batch(*waiting).run(self.stores)  # type: ignore[arg-type]
            outcomes += result.outcomes
            waiting = [
                from_pending(pending, self.plan)
                for outcome in result.outcomes
                for pending in outcome.continuations
                if not pending.is_deferred_call
            ]
            self._forget(waiting)
        return outcomes

    def _forget(self, waiting: Sequence[Work]) -> None:
        for name in self.plan.stores if waiting else ():
            with self.stores.get(name).transaction() as store:
                store.pending.remove([one.key for one in waiting])

    def say(self, *texts: str) -> None:
        """Run messages, one in each batch."""
        for text in texts:
            self.run(self.entry(text))

    def rehearse(
        self, folder: Path, candidate: Json, since_ms: int | None = None, **setup: Any
    ) -> dict[str, Any]:
        """Run a rehearsal in this process, and return its report."""
        prepare(self, folder, candidate, since_ms, **setup)
        return rehearse(folder)

    def close(self) -> None:
        self.stores.close_all()


def prepare(
    live: LivePipeline,
    folder: Path,
    candidate: Json,
    since_ms: int | None = None,
    **setup: Any,
) -> None:
    """Make the folder of a rehearsal."""
    folder.mkdir(parents=True)
    uid, until_ms = live.plan.uid, live.now_ms + 1
    copied = copy_stores(live.root, folder, uid, live.plan.all_stores, (since_ms, until_ms))
    source = orjson.dumps(candidate | {"inputs_days": 7})
    made = Setup("r1", uid, until_ms, copied.since_ms, until_ms, live.versions, source, **setup)
    write_setup(folder, made, copied.inputs, copied.results)
