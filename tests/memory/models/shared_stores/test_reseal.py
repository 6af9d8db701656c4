"""items.reseal: an administrator replaces sealed values of any agent."""

from collections.abc import Iterator
from typing import Any

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import RecordNotFound, Refused, VersionConflict
from tests.memory.models.shared_stores.access_cases import call, open_stores
from tests.memory.models.shared_stores.item_cases import get, put

OLD, NEW = [f"v1.{'0' * 16}.{'n' * 16}.{one * 24}" for one in "ab"]
PLACE = {"store": "a1", "key": "k", "namespace": "n"}


@pytest.fixture
def store() -> Iterator[Store]:
    with open_stores() as opened:
        yield opened


def reseal(store: Store, value: str = NEW, **given: Any) -> str:
    return str(call(store, "items.reseal", **PLACE, owner="a1", value=value, **given).version)


def test_a_value_is_replaced_also_if_its_agent_is_switched_off(store: Store) -> None:
    made = put(store, "k", OLD, namespace="n", in_context=False, ttl_s=60).entry
    call(store, "stores.configure", agent="a1", enabled=False)

    version = reseal(store, if_version=(made.version,))
    with pytest.raises(VersionConflict):
        reseal(store, OLD, if_version=(made.version,))

    call(store, "stores.configure", agent="a1", enabled=True)
    after = get(store, "k", namespace="n", internal=True)
    assert (after.value, after.version, after.in_context) == (NEW, version, False)
    assert (after.expires_at, after.guid) == (made.expires_at, made.guid)


def test_only_internal_entries_get_sealed_values(store: Store) -> None:
    put(store, "k", OLD, namespace="n", in_context=False)
    with pytest.raises(Refused, match="`value` is not sealed; use `memrelay reseal"):
        reseal(store, "plain")
    for flags in ({"in_context": True}, {"encrypted": True, "in_context": False}):
        call(store, "items.delete", agent="a1", **PLACE)
        with pytest.raises(RecordNotFound):
            reseal(store)
        put(store, "k", "x", namespace="n", **flags)
        with pytest.raises(RecordNotFound):
            reseal(store)
