"""Random item operations of two agents agree with a dictionary."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import Denied, KeyTaken, RecordNotFound
from memrelay.memory.models.shared_stores.table import ItemTable
from tests.memory.models.shared_stores.access_cases import open_stores, share
from tests.memory.models.shared_stores.item_cases import call, get, page, put, rename

AGENTS, KEYS, NAMESPACES = ("a1", "a2"), ("a", "ab", "b"), ("", "n")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)
Place = tuple[str, str, str]  # namespace, key, owner
Model = dict[Place, Any]
ADDRESS = {
    "agent": st.sampled_from(AGENTS),
    "namespace": st.sampled_from(NAMESPACES),
    "key": st.sampled_from(KEYS),
}
COMMANDS = st.one_of(
    st.fixed_dictionaries(ADDRESS | {"name": st.just("put"), "value": VALUES}),
    st.fixed_dictionaries(ADDRESS | {"name": st.just("delete")}),
    st.fixed_dictionaries(ADDRESS | {"name": st.just("rename"), "to": st.sampled_from(KEYS)}),
)


@given(st.lists(COMMANDS, max_size=25))
def test_random_operations_agree_with_a_dictionary(commands: list[dict[str, Any]]) -> None:
    model: Model = {}
    with open_stores() as store:
        share(store, "a1", "a1", "a2", "readwrite")
        for command in commands:
            apply(store, model, **command)
            check(store, model)


def apply(store: Store, model: Model, /, name: str, **given: Any) -> None:
    named = {name: given[name] for name in ("agent", "namespace")} | {"store": "a1"}
    place = given["namespace"], given["key"], given["agent"]
    others = [one for one in model if one[:2] == place[:2] and one[2] != place[2]]
    match name:
        case "put":
            written = put(store, given["key"], given["value"], **named)
            assert written.created is (place not in model)
            model[place] = given["value"]
        case "delete" if place in model or not others:
            deleted = call(store, "items.delete", key=given["key"], **named).deleted
            assert deleted is (place in model)
            model.pop(place, None)
        case "rename":
            apply_rename(store, model, place, given["to"], named)


def apply_rename(store: Store, model: Model, place: Place, to: str, named: dict[str, Any]) -> None:
    namespace, key, agent = place
    others = [one for one in model if one[:2] == place[:2] and one[2] != agent]
    is_taken = any(one[:2] == (namespace, to) for one in model)
    try:
        moved = rename(store, key, to, **named)
    except RecordNotFound:
        assert place not in model and not others
    except Denied:
        assert place not in model and others
    except KeyTaken:
        assert place in model and is_taken and to != key
    else:
        assert moved.key == to
        model[namespace, to, agent] = model.pop(place)


def check(store: Store, model: Model) -> None:
    listed = page(store)
    found = {(one.namespace, one.key, one.owner): one.value for one in listed.entries}
    assert repr(sorted(found.items(), key=repr)) == repr(sorted(model.items(), key=repr))
    assert list(listed.keys) == sorted({key for _, key, _ in model})
    for (namespace, key, owner), value in model.items():
        assert get(store, key, agent=owner, store="a1", namespace=namespace).value == value
    assert store.table(ItemTable).count("a1") == len(model)
