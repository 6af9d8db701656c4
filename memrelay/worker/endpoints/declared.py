"""Brings the endpoints of a pipeline in line with those that its bundle declares."""

from memrelay.memory.endpoint_rules import is_reference
from memrelay.memory.engine.connection import translate_errors
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.models.endpoints.endpoints import make_secret, switch_on
from memrelay.memory.models.endpoints.table import (
    NO_LONGER_DECLARED,
    Endpoint,
    EndpointSpec,
    EndpointTable,
    Secret,
)
from memrelay.pipelines.bundle import DeclaredEndpoint
from memrelay.pipelines.plan import Plan


def synchronize(stores: OpenStores, plan: Plan, since_ms: int) -> None:
    """Write the endpoints of a bundle that are new or changed, and switch those off that it
    declares no longer. It runs in the database thread.

    A new one gets the changes since `since_ms`. Raises StoreBusy, StoreBroken and StoreFenced.
    """
    name = plan.built_in_stores["endpoints"]
    with translate_errors(name):
        _write_changed(stores.get(name), plan, since_ms)


def _write_changed(store: Store, plan: Plan, since_ms: int) -> None:
    table = store.table(EndpointTable)
    known = {one.id: one for one in table.all() if one.is_from_bundle}
    declared = {one.name: one for one in plan.endpoints}
    wanted = [_update(one, known.get(id_), since_ms) for id_, one in declared.items()]
    wanted += [
        one._replace(disabled=NO_LONGER_DECLARED)
        for id_, one in known.items()
        if id_ not in declared
    ]
    changed = [one for one in wanted if one != known.get(one.id)]
    if changed:
        with store.transaction():
            for endpoint in changed:
                table.put(endpoint._replace(updated_at=since_ms))


def _update(declared: DeclaredEndpoint, known: Endpoint | None, since_ms: int) -> Endpoint:
    """Return an endpoint as the bundle declares it."""
    spec = EndpointSpec(
        declared.url,
        declared.events,
        declared.filter or None,
        declared.format,
        tuple(declared.headers.items()),
        declared.ordered,
        declared.rate,
        declared.description,
        declared.template or None,
    )
    secrets = tuple(map(Secret, declared.secrets))
    if known is None:
        made = secrets or (Secret(make_secret()),)
        return Endpoint(declared.name, spec, made, "", since_ms, since_ms)
    if not secrets:
        has_made = not is_reference(known.secrets[0].value)
        secrets = known.secrets if has_made else (Secret(make_secret()),)
    known = known._replace(spec=spec, secrets=secrets)
    return known if known.is_declared else switch_on(known)
