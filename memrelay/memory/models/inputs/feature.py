"""The feature that keeps the inputs of a batch, in the transaction of their inbox rows, and the
results of their deferred calls.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from memrelay.memory.engine.features import Feature
from memrelay.memory.engine.feed import ChangeFeed
from memrelay.memory.engine.inbox import Pending
from memrelay.memory.engine.store import Store
from memrelay.memory.models.inputs.packing import BUNDLE_DIGITS, InputFields, KeptResult, pack
from memrelay.memory.models.inputs.table import DAY_MS, InputTable, owner_of

# Fields of an entry that belong to one delivery, and not to the input.
NOT_KEPT = frozenset({b"reply", b"replay_of"})
PUBLISHED, TRACEPARENT = b"published", b"traceparent"


class KeptInputs(Feature):
    """Keeps the inputs of pipelines with `inputs_days`, one row for each batch. The result of a
    deferred call has its own row, in the transaction that stores it.

    Continuations are not kept: a replay of their first input leads to them again. Inputs that an
    inbox answers ran before, and their row is there already.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._table, self._feed = store.table(InputTable), store.table(ChangeFeed)
        self._keys = store.inbox.keys
        self._store_owner = owner_of(store.memory_id)
        self._new: list[InputFields] = []

    def ran(self, inputs: Sequence[tuple[Any, Any]]) -> None:
        """Take the inputs that ran now."""
        self._new += self._select(inputs)
        for work, outcome in inputs:
            if outcome.is_redacted and (got := getattr(work, "got", None)) is not None:
                ms = int(outcome.root.partition("-")[0])
                self._table.replace_result(ms, got.deferred_call_id, work.texts[2])

    def _select(self, inputs: Sequence[tuple[Any, Any]]) -> Iterator[InputFields]:
        for work, outcome in inputs:
            plan = work.plan
            has_run = not (outcome.publish_id or outcome.delayed or outcome.dead_letter)
            if not (plan.inputs_days and has_run) or "." in work.id:
                continue
            ms, _, number = work.id.partition("-")
            fields = getattr(work, "fields", None) or _fields_of(work)
            if len(fields) > 4:
                fields = list(_kept_fields(fields, plan.public))
            yield int(ms), int(number), self._owner(plan.uid), fields, plan.hash[:BUNDLE_DIGITS]

    def answered(self, pending: Pending, plan: Any, digest: bytes) -> None:
        """Take the result of a deferred call. It expires with the input that led to the call."""
        if not plan.inputs_days or pending.result is None:
            return
        ms, _, number = pending.root.partition("-")
        result = KeptResult(digest, pending.agent, pending.deferred_call_id, pending.result)
        bundle = plan.hash[:BUNDLE_DIGITS]
        self._new.append((int(ms), int(number), self._owner(plan.uid), [], bundle, result))

    def _owner(self, uid: str) -> str:
        """Return the uid to keep for a pipeline, "" for the one that has the store."""
        return "" if uid == self._store_owner else uid

    def complete(self) -> None:
        """Add the row. Idempotency keys stay for as long as an input that has one."""
        if self._new:
            self._table.add(self._new, self._feed.last, pack(self._new))
            self._new = []
        if (oldest_ms := self._table.oldest_ms()) is not None:
            self._keys.keep_since(oldest_ms - DAY_MS)

    def reset(self) -> None:
        """Drop the inputs of the open transaction after a rollback."""
        self._new = []


def _fields_of(work: Any) -> list[bytes]:
    """Return the fields of the entry of an input that waited in the store for a retry."""
    address = [b"agent", work.only_agent] if work.only_agent else [b"swarm", work.swarm]
    fields = [*address, b"data", work.texts[0], b"id", work.producer_id]
    fields += [b"hop", str(work.hop or ""), PUBLISHED, "1" if work.published > 0 else ""]
    fields += [TRACEPARENT, work.traceparent, b"via", work.via.pack() if any(work.via) else ""]
    encoded = [one if isinstance(one, bytes) else one.encode() for one in fields]
    pairs = zip(encoded[::2], encoded[1::2], strict=True)
    return [part for name, value in pairs if value for part in (name, value)]


def _kept_fields(fields: Sequence[bytes], public: frozenset[str]) -> Iterator[bytes]:
    """Yield the fields to keep. A message that another pipeline has published stays published."""
    pairs = list(zip(fields[::2], fields[1::2], strict=True))
    is_public = any(
        name == b"swarm" and value.decode(errors="replace") in public for name, value in pairs
    )
    for name, value in pairs:
        if name not in NOT_KEPT and (name != PUBLISHED or is_public):
            yield name
            yield value
