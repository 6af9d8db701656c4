"""Features: the parts of a store's write path that only some stores have.

A store composes its path when it opens, and again between two batches after a deploy. Each hook of
the path has the features that use it and no others. So a feature that is off is not loaded, and no
message asks for it.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memrelay.memory.engine.inbox import Pending
from memrelay.memory.engine.memory_id import built_in_name
from memrelay.memory.engine.models import load
from memrelay.memory.engine.table import StoreTable

if TYPE_CHECKING:
    from memrelay.memory.engine.store import Store
    from memrelay.memory.engine.versions import State

FEED, INPUTS, CAUSES, POLICIES = "feed", "inputs", "causes", "policies"
RECEIPTS, VIEWS, EXTRACTION = "receipts", "views", "extraction"
# The class of each feature, in the order in which its hooks are called.
FEATURES: dict[str, str] = {
    # It deletes before the commit, which the others note.
    EXTRACTION: "memrelay.memory.models.extraction.feature:Evidence",
    FEED: "memrelay.memory.engine.feed:ChangeFeed",
    INPUTS: "memrelay.memory.models.inputs.feature:KeptInputs",
    CAUSES: "memrelay.memory.models.endpoints.causes:ChangeCauses",
    RECEIPTS: "memrelay.memory.models.receipts.feature:WrittenReceipts",
    VIEWS: "memrelay.memory.models.views.feature:KeptViews",
    POLICIES: "memrelay.memory.models.policies.feature:Policies",
}


# A record in the order of columns.NEW, and the values of its Origin.
DeferredRecord = tuple[tuple[str, str, str, str, str, str, int, int], tuple[str, ...]]


class Feature(StoreTable):
    """One feature of an open store. It overrides the hooks that it uses, and no others. To see all
    changes, it needs `created`, `changed` and `selected`.

    Hooks run inside the store's open transaction. `reset` follows a rollback.
    """

    def __init__(self, store: "Store") -> None:
        # Not the records: they keep the path, and a store is closed without a garbage collection.
        # The versions have the time and the actor of the current change.
        self._connection, self._versions = store.connection, store.records.versions

    def admit(self, new: "State", before: "State | None") -> "State":
        """Return the record to write: `new` itself, or a changed copy. It precedes the write.

        `before` is the present state of a record that changes. Of a long record, both have only the
        end of the content (SEAM in appends.py). Raises PolicyStop.
        """
        return new

    def may_defer(self) -> bool:
        """Return whether new records that have only the columns of columns.NEW may wait for
        `admits_all`, instead of `admit`, in the transaction that begins.
        """
        return False

    def admits_all(self, records: Sequence[DeferredRecord]) -> bool:
        """Return whether `admit` would certainly leave all these new records as they are."""
        return False

    def admit_texts(self, kind: str, texts: Sequence[str], names: Sequence[str]) -> Sequence[str]:
        """Return texts that are no record, as they may be written. `kind` names their owner.

        `names` belong to them and cannot change. Raises PolicyStop.
        """
        return texts

    def created(self, guid: str) -> None:
        """Note a new record. The hot path calls this instead of `changed`."""

    def bound_expiry(self, state: "State") -> int | None:
        """Return when a record expires at the latest, also if reads extend its life, Unix ms. None
        for no bound.
        """
        return None

    def changed(self, change: Any, subject: str, data: Mapping[str, Any] | None = None) -> None:
        """Note a change (a ChangeType) of a record or another subject, with further ids in
        `data`.
        """

    def selected(self, change: Any, which: str, values: Sequence[Any]) -> None:
        """Note a change of each record that a WHERE clause on `records AS r` selects, before it
        happens.
        """

    def ran(self, inputs: Sequence[tuple[Any, Any]]) -> None:
        """Note the inputs of a batch that have effects in the store, each with its outcome: Work
        and Outcome of the worker. It precedes `complete`.
        """

    def answered(self, pending: Pending, plan: Any, digest: bytes) -> None:
        """Note the result of a deferred call, in the transaction that stores it.

        `plan` is the version that asked for it (Plan of the worker), and `digest` that of its
        request.
        """

    def complete(self) -> None:
        """Write what is buffered, before the commit."""


class WritePath:
    """The hooks of a store's features, composed once."""

    def __init__(self, features: Mapping[str, Feature] | None = None) -> None:
        features = features or {}
        self.names = frozenset(features)
        hooks = [*features.values()]
        self.admit = tuple(one.admit for one in hooks if _overrides(one, "admit"))
        self.admitting = tuple(one for one in hooks if _overrides(one, "admit"))
        self.admit_texts = tuple(one.admit_texts for one in hooks if _overrides(one, "admit_texts"))
        self.bound_expiry = tuple(
            one.bound_expiry for one in hooks if _overrides(one, "bound_expiry")
        )
        self.created = tuple(one.created for one in hooks if _overrides(one, "created"))
        self.changed = tuple(one.changed for one in hooks if _overrides(one, "changed"))
        self.selected = tuple(one.selected for one in hooks if _overrides(one, "selected"))
        self.ran = tuple(one.ran for one in hooks if _overrides(one, "ran"))
        self.answered = tuple(one.answered for one in hooks if _overrides(one, "answered"))
        self.complete: tuple[Callable[[], None], ...] = tuple(
            one.complete for one in hooks if _overrides(one, "complete")
        )


def _overrides(feature: Feature, hook: str) -> bool:
    return getattr(type(feature), hook) is not getattr(Feature, hook)


def compose(store: "Store", names: Collection[str]) -> WritePath:
    """Return the write path of a store with these features."""
    return WritePath(
        {name: store.table(load(path)) for name, path in FEATURES.items() if name in names}
    )


def default_features(memory_id: str) -> frozenset[str]:
    """Return the features of a store that no bundle declares: built-in stores have a feed."""
    return frozenset({FEED} if built_in_name(memory_id) else ())
