"""Finds the deliveries to endpoints that the changes of a run lead to. Nothing is sent.

The endpoints are those of the copy's store and those that the bundle declares. Their secrets and
URLs are not used.
"""

from collections.abc import Iterator
from typing import NamedTuple

from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.models.endpoints.outbox import CHANGES_TOGETHER, make_rows
from memrelay.memory.models.endpoints.table import NO_LONGER_DECLARED, Endpoint, EndpointTable
from memrelay.pipelines.plan import Plan
from memrelay.worker.endpoints.declared import synchronize
from memrelay.worker.run.store_features import ENDPOINTS


class Delivered(NamedTuple):
    """A delivery that an endpoint would have got. `record` is the id that the event is about."""

    endpoint: str
    event: str
    store: str
    record: str


class Deliveries:
    """The deliveries of one run, found after each input."""

    def __init__(self, stores: OpenStores) -> None:
        self._stores = stores
        self._endpoints: list[Endpoint] = []
        self._sources: tuple[str, ...] = ()
        # By store: the number of the last change that was read.
        self._cursors: dict[str, int] = {}

    @property
    def has_endpoints(self) -> bool:
        """Return whether changes lead to deliveries."""
        return bool(self._endpoints)

    def use(self, plan: Plan) -> None:
        """Take the endpoints of a plan for the changes from now on."""
        name, stores = plan.built_in_stores[ENDPOINTS], self._stores
        self._endpoints = []
        if not plan.endpoints and not stores.exists(name):
            return
        synchronize(stores, plan, 0)
        listed = stores.get(name).table(EndpointTable).all()
        # A bundle may declare one earlier than the deployed bundles did.
        self._endpoints = [
            one._replace(created_at=0) if one.is_declared else one
            for one in listed
            if one.disabled != NO_LONGER_DECLARED
        ]
        self._sources = tuple(one for one in plan.event_stores if one != name)
        existing = filter(stores.exists, self._sources)
        self._cursors |= {one: stores.get(one).feed.last for one in existing}

    def find(self) -> Iterator[Delivered]:
        """Yield the deliveries of the changes since the last call."""
        for name in self._sources if self._endpoints else ():
            if not self._stores.exists(name):
                continue
            store = self._stores.get(name)
            while changes := store.feed.after(self._cursors.get(name, 0), CHANGES_TOGETHER):
                self._cursors[name] = changes[-1].n
                for _, endpoint, _, _, event, record, *_ in make_rows(
                    store, changes, self._endpoints
                ):
                    yield Delivered(endpoint, event, name, record)
