"""Items in shared stores: operations on a real store."""

from collections.abc import Iterator
from typing import Any

import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import (
    BadValue,
    Denied,
    KeyTaken,
    NotText,
    RecordNotFound,
    Refused,
    TextNotUnique,
    TooManyKeys,
    ValueTooLarge,
    VersionConflict,
)
from memrelay.memory.models.shared_stores import ITEM_KIND
from memrelay.memory.models.shared_stores.item import encode
from memrelay.memory.models.shared_stores.items import MAX_KEYS
from memrelay.memory.models.shared_stores.table import ItemTable, KeyCounts
from tests.memory.builders import NOW, perform
from tests.memory.models.shared_stores.access_cases import call, enter, open_stores, share
from tests.memory.models.shared_stores.item_cases import found, get, page, put, rename, states

SEALED = f"v1.{'0' * 16}.{'n' * 16}."
TOO_BIG = "x" * (256 * 1024 + 1)


@pytest.fixture
def store() -> Iterator[Store]:
    with open_stores() as opened:
        yield opened


VALUES: list[Any] = [
    {"x": [1, None, "é"]},
    0,
    False,
    None,
    "",
    "green tea",
    "null",
    '{"a":1}',
    1.5,
    -(2**63),
    2**64 - 1,
    [],
    {},
    {"value": 1, "json": True, "namespace": "n"},
    "a\x00b\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16"),
]


@pytest.mark.parametrize(
    "flags", [{}, {"in_context": False}, {"encrypted": True}, {"namespace": "fn:x"}]
)
def test_every_json_value_survives_the_round_trip(store: Store, flags: dict[str, Any]) -> None:
    place = {"namespace": flags.get("namespace", "")}
    for number, value in enumerate(VALUES):
        put(store, str(number), value, **flags)

    returned = [
        get(store, str(number), internal=True, **place).value for number in range(len(VALUES))
    ]

    assert returned == VALUES
    assert [type(one) for one in returned] == [type(one) for one in VALUES]


@pytest.mark.parametrize("value", [float("inf"), [float("nan")], {"a": [-float("inf")]}, 2**64])
def test_a_number_that_json_lacks_is_refused(value: Any) -> None:
    with pytest.raises(Refused, match="JSON"):
        encode(value, "", in_context=True, encrypted=False)


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize("flags", [{}, {"in_context": False}])
@pytest.mark.parametrize("levels", [129, 250, 900])
def test_a_value_that_is_nested_too_deeply_is_refused(levels: int, flags: dict[str, Any]) -> None:
    kept = {"in_context": True, "encrypted": False} | flags
    encode(nested(128), "", **kept)
    encode([[]] * 200, "", **kept)

    with pytest.raises(BadValue, match="more than 128 levels"):
        encode(nested(levels), "", **kept)


def test_a_grant_opens_search_then_read_then_write(store: Store) -> None:
    put(store, "k", "green tea")
    seen = {"agent": "a2", "store": "a1"}
    for operation, given in (
        ("items.get", {"key": "k"}),
        ("items.list", {}),
        ("items.put", {"key": "k", "value": 1}),
        ("items.delete", {"key": "k"}),
        ("items.edit", {"key": "k", "old_str": "a", "new_str": "b"}),
        ("items.rename", {"key": "k", "to_store": "a2", "to_key": "k"}),
    ):
        with pytest.raises(Denied):
            call(store, operation, **seen, **given)
    assert found(store, "tea", agent="a2") == []
    assert found(store, "tea", agent="a2", stores=["a1", "nothing"]) == []

    share(store, "a1", "a1", "a2", "search")
    assert found(store, "tea", agent="a2") == ["k"]
    with pytest.raises(Denied):
        get(store, "k", **seen)
    share(store, "a1", "a1", "a2", "read")
    assert get(store, "k", **seen).value == "green tea"
    with pytest.raises(Denied):
        put(store, "k", 1, **seen)
    share(store, "a1", "a1", "a2", "readwrite")
    assert put(store, "k", 1, **seen).entry.owner == "a2"
    assert get(store, "k").value == "green tea", "a put writes the agent's own entry"


def test_an_entry_expires_and_its_key_is_free_again(store: Store) -> None:
    first = put(store, "k", "green tea", ttl_s=2).entry
    put(store, "k", "black tea")
    assert get(store, "k", NOW + 1999).expires_at == first.expires_at, "it keeps its end"

    after = NOW + 2000
    with pytest.raises(RecordNotFound):
        get(store, "k", after)
    assert page(store, after).entries == ()
    assert found(store, "tea", after) == []
    again = put(store, "k", "white tea", after, if_absent=True)
    assert (again.created, again.won) == (True, True)
    assert again.entry.guid != first.guid
    assert again.entry.expires_at is None
    assert store.records.versions.count_of(first.guid) == 0, "its history goes with it"


def test_a_ttl_of_zero_ends_the_expiry(store: Store) -> None:
    put(store, "k", 1, ttl_s=0.5)

    assert put(store, "k", 1, ttl_s=0).entry.expires_at is None
    assert get(store, "k", NOW + 10_000).value == 1


FLAGS = [{}, {"in_context": False}, {"encrypted": True}, {"in_context": False, "encrypted": True}]


@pytest.mark.parametrize("before", FLAGS)
@pytest.mark.parametrize("after", FLAGS)
def test_a_put_repeats_every_set_flag(
    store: Store, before: dict[str, bool], after: dict[str, bool]
) -> None:
    put(store, "k", "first", **before)

    if before.items() <= after.items():
        entry = put(store, "k", "second", **after).entry
        assert entry.in_context is after.get("in_context", True)
        assert entry.encrypted is after.get("encrypted", False)
        assert entry.value is (None if after else "second") or entry.value == "second"
    else:
        with pytest.raises(Denied, match="internal or encrypted"):
            put(store, "k", "second", **after)
        assert get(store, "k", internal=True).value == "first"


def test_a_read_returns_the_own_entry_else_the_newest(store: Store) -> None:
    for agent in ("a2", "a3", "a4"):
        share(store, "a1", "a1", agent, "readwrite")
    put(store, "k", "old", NOW + 1, agent="a2", store="a1")
    put(store, "k", "new", NOW + 2, agent="a3", store="a1")

    assert get(store, "k", NOW + 3).value == "new"
    assert get(store, "k", NOW + 3, owner="a2").value == "old"
    assert get(store, "k", NOW + 3, agent="a2", store="a1").value == "old"
    listed = page(store, NOW + 3)
    assert [entry.owner for entry in listed.entries] == ["a2", "a3"]
    assert listed.keys == ("k",)
    first = page(store, NOW + 3, limit=1)
    assert page(store, NOW + 3, limit=1, cursor=first.next_cursor).keys == ()
    with pytest.raises(Denied, match="belongs to agent 'a3'"):
        call(store, "items.delete", NOW + 3, agent="a1", store="a1", key="k")
    edited = call(
        store,
        "items.edit",
        NOW + 3,
        agent="a1",
        store="a1",
        key="k",
        old_str="new",
        new_str="newer",
    )
    assert (edited.entry.owner, edited.entry.value) == ("a3", "newer")


def test_an_edit_never_passes_over_the_own_entry(store: Store) -> None:
    share(store, "a1", "a1", "a2", "readwrite")
    put(store, "k", "theirs", agent="a2", store="a1")
    put(store, "k", "secret", in_context=False)
    change = {"agent": "a1", "store": "a1", "key": "k", "old_str": "theirs", "new_str": "mine"}

    with pytest.raises(Denied, match="own entry 'k' is internal"):
        call(store, "items.edit", **change)

    assert get(store, "k", owner="a2").value == "theirs"


def test_a_conditional_put_has_one_winner(store: Store) -> None:
    share(store, "a1", "a1", "a2", "readwrite")
    results = [
        put(store, "lock", agent, agent=agent, store="a1", if_absent=True)
        for agent in ("a1", "a2", "a1")
    ]

    assert [one.won for one in results] == [True, False, False]
    assert {one.entry.owner for one in results} == {"a1"}
    assert len(page(store).entries) == 1


def test_a_put_requires_the_version_that_it_names(store: Store) -> None:
    with pytest.raises(VersionConflict):
        put(store, "k", 1, if_version=["1-1"])
    first = put(store, "k", 1).entry

    second = put(store, "k", 2, if_version=[first.version]).entry

    with pytest.raises(VersionConflict):
        put(store, "k", 3, if_version=[first.version])
    assert get(store, "k").version == second.version


def test_an_unchanged_put_adds_no_version(store: Store) -> None:
    first = put(store, "k", "tea").entry

    assert put(store, "k", "tea", NOW + 9).entry == first
    assert states(store, first.guid) == 1


def test_the_size_of_a_value_is_limited_by_its_kind(store: Store) -> None:
    put(store, "k", TOO_BIG[1:])
    put(store, "i", "x" * 45_056, in_context=False)
    put(store, "s", SEALED + "x" * 60_000, in_context=False)
    put(store, "e", "x" * 65_536, encrypted=True, namespace="n")
    put(store, "c", "\x01" * 40_000, in_context=False)
    for value, flags in (
        (TOO_BIG, {}),
        (["é" * 131_072], {}),
        ("x" * 45_057, {"in_context": False}),
        ("x" * 65_537, {"encrypted": True}),
    ):
        with pytest.raises(ValueTooLarge):
            put(store, "other", value, **flags)


def test_a_full_store_takes_no_new_key(store: Store) -> None:
    share(store, "a1", "a1", "a2", "readwrite")
    own = {"agent": "a1", "store": "a1"}
    with store.transaction() as tx:
        for key in ("k", "l"):
            perform(tx, "items.put", key=key, value=1, **own)
        perform(tx, "items.put", key="k", value=1, agent="a2", store="a2")
        assert tx.table(ItemTable).count("a1") == 2
        # As if it had more keys. A transaction that is rolled back counts again.
        counts = tx.records.hooks[ITEM_KIND]
        assert isinstance(counts, KeyCounts)
        counts.add("a1", MAX_KEYS - 2)

        with pytest.raises(TooManyKeys):
            perform(tx, "items.put", key="other", value=1, **own)
        with pytest.raises(TooManyKeys):
            moved = {"agent": "a2", "store": "a2", "to_store": "a1"}
            perform(tx, "items.rename", key="k", to_key="other", **moved)
        perform(tx, "items.put", key="k", value=2, **own)
        perform(tx, "items.delete", key="k", **own)
        perform(tx, "items.put", key="other", value=1, **own)
        perform(tx, "items.rename", key="other", to_key="k", to_store="a1", **own)
        with pytest.raises(TooManyKeys):
            perform(tx, "items.put", key="more", value=1, **own)


def test_keys_are_counted_as_entries_come_and_go(store: Store) -> None:
    share(store, "b1", "b1", "a1", "readwrite")
    with store.transaction() as tx:
        assert [tx.table(ItemTable).count("a1"), tx.table(ItemTable).count("b1")] == [0, 0]
    put(store, "a", 1)
    put(store, "b", 1, ttl_s=1)
    put(store, "c", 1, ttl_s=1)
    rename(store, "a", "a", to_store="b1")
    put(store, "b", 2, NOW + 1000)
    with store.transaction() as tx:
        assert tx.records.delete_expired(NOW + 1000, 10) == 1

    counted = [store.table(ItemTable).count(name) for name in ("a1", "b1")]
    store.records.hooks[ITEM_KIND].reset()

    assert counted == [store.table(ItemTable).count(name) for name in ("a1", "b1")] == [1, 1]


def test_an_edit_replaces_literally_and_once(store: Store) -> None:
    end = put(store, "k", "hello world", ttl_s=9).entry.expires_at

    edited = call(
        store, "items.edit", agent="a1", store="a1", key="k", old_str="hello", new_str=r"$& \1"
    )

    assert (edited.entry.value, edited.before, edited.after) == (r"$& \1 world", "", " world")
    assert edited.entry.expires_at == end
    assert states(store, edited.entry.guid) == 2


@pytest.mark.parametrize(
    ("value", "old", "error", "detail"),
    [
        ("a a a", "a", TextNotUnique, 3),
        ("a a a", "b", TextNotUnique, 0),
        (5, "5", NotText, "number"),
        (None, "n", NotText, "null"),
        (True, "t", NotText, "boolean"),
        (["a"], "a", NotText, "object"),
    ],
)
def test_an_edit_that_is_not_clear_changes_nothing(
    store: Store, value: Any, old: str, error: type[Exception], detail: Any
) -> None:
    put(store, "k", value)

    with pytest.raises(error) as caught:
        call(store, "items.edit", agent="a1", store="a1", key="k", old_str=old, new_str="x")

    assert getattr(caught.value, "count", getattr(caught.value, "sort", None)) == detail
    assert get(store, "k").value == value


def test_an_internal_entry_cannot_be_edited(store: Store) -> None:
    put(store, "k", "tea", in_context=False)

    with pytest.raises(RecordNotFound):
        call(store, "items.edit", agent="a1", store="a1", key="k", old_str="t", new_str="x")


def test_a_rename_keeps_guid_flags_end_and_history(store: Store) -> None:
    share(store, "b1", "b1", "a1", "readwrite")
    put(store, "a", "one", ttl_s=60, namespace="n")
    before = put(store, "a", "two", namespace="n", in_context=False).entry

    after = rename(store, "a", "b", to_store="b1", namespace="n")

    assert (after.store, after.key, after.owner) == ("b1", "b", "a1")
    kept = ("guid", "in_context", "encrypted", "expires_at", "created_at", "namespace")
    assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert states(store, after.guid) == 3
    assert get(store, "b", store="b1", namespace="n", internal=True).value == "two"
    with pytest.raises(RecordNotFound):
        get(store, "a", namespace="n", internal=True)


def test_a_rename_onto_itself_does_nothing(store: Store) -> None:
    before = put(store, "a", "tea").entry

    assert rename(store, "a", "a") == before
    assert states(store, before.guid) == 1


def test_a_rename_never_overwrites(store: Store) -> None:
    put(store, "a", 1)
    put(store, "b", 2)
    put(store, "gone", 3, ttl_s=1)
    share(store, "a1", "a1", "a2", "readwrite")
    put(store, "c", 4, agent="a2", store="a1")
    put(store, "hidden", 5, in_context=False)
    put(store, "sealed", SEALED + "x" * 23, in_context=False)
    put(store, "locked", "x", encrypted=True)

    for taken in ("b", "c", "hidden"):
        with pytest.raises(KeyTaken):
            rename(store, "a", taken)
    for secret in ("sealed", "locked"):
        with pytest.raises(Denied, match="encrypted together with its key"):
            rename(store, secret, "free")
    with pytest.raises(Denied, match="belongs to agent 'a2'"):
        rename(store, "c", "free")
    with pytest.raises(RecordNotFound):
        rename(store, "none", "free")
    assert [get(store, key).value for key in ("a", "b", "c")] == [1, 2, 4]
    named = {"agent": "a1", "store": "a1", "to_store": "a1", "key": "a", "to_key": "gone"}
    assert call(store, "items.rename", NOW + 1000, **named).key == "gone"


def test_only_the_own_entry_is_deleted(store: Store) -> None:
    put(store, "k", 1)
    place = {"agent": "a1", "store": "a1", "key": "k"}

    assert call(store, "items.delete", **place).deleted
    assert not call(store, "items.delete", **place).deleted
    assert put(store, "k", 2).created


def test_a_chat_is_a_store_for_its_participants(store: Store) -> None:
    enter(store, "chat", "chat:p/main", "a1")

    put(store, "k", "tea", store="chat:p/main")

    assert found(store, "tea") == ["k"]
    vouched = {"agent": "a2", "chat": "chat:p/main", "vouched": ["chat"]}
    assert get(store, "k", store="chat:p/main", **vouched).value == "tea"
    with pytest.raises(Denied):
        get(store, "k", store="chat:p/main", agent="a2", chat="chat:p/main")
