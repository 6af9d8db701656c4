"""Lists and searches of items in shared stores."""

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import RecordNotFound, Refused
from tests.memory.builders import NOW, perform
from tests.memory.models.shared_stores.access_cases import open_stores
from tests.memory.models.shared_stores.item_cases import found, get, page, put


@pytest.fixture
def store() -> Iterator[Store]:
    with open_stores() as opened:
        yield opened


def test_an_internal_entry_is_in_no_list_and_no_search(store: Store) -> None:
    put(store, "k", "green tea")
    put(store, "secret", "green tea", in_context=False)
    assert put(store, "k", "green tea", in_context=False).entry.value is None

    assert page(store).entries == ()
    assert found(store, "tea") == []
    assert found(store, "kind:store.item") == []
    with pytest.raises(RecordNotFound):
        get(store, "secret")
    assert get(store, "secret", internal=True).value == "green tea"
    hidden = page(store, in_context=False)
    assert [(entry.key, entry.value) for entry in hidden.entries] == [("k", None), ("secret", None)]
    indexed = list(store._connection.execute("SELECT content FROM records WHERE content <> ''"))
    assert indexed == []


def test_an_agent_finds_its_entry_among_many_of_others(store: Store) -> None:
    for number in range(60):
        put(store, f"k{number}", f"tea {number}", agent="a3")
    put(store, "mine", "tea", agent="a2")

    assert found(store, "tea", agent="a2") == ["mine"]


@pytest.mark.parametrize("key", ["a/b", "a?b", "ü ü", "100%", "..", "%", "_", "x" * 200, "\x00"])
def test_a_key_is_any_text(store: Store, key: str) -> None:
    put(store, key, 1)
    put(store, "other", 2)

    assert get(store, key).value == 1
    assert page(store, prefix=key).keys == (key,)


def test_pages_have_each_key_once_while_others_write(store: Store) -> None:
    for number in range(250):
        put(store, f"k/{number:03}", number, ttl_s=1 if number % 5 == 0 else None)
    put(store, "k/hidden", 1, in_context=False)
    put(store, "l", 1)
    keys: list[str] = []
    cursor, sizes = "", []
    while cursor is not None:
        taken = page(store, NOW + 5000, prefix="k/", limit=50, cursor=cursor)
        put(store, f"k/000{len(keys)}", "written later", NOW + 5000)
        put(store, f"k/zzz{len(keys)}", "written later", NOW + 5000, agent="a2")
        keys += taken.keys
        sizes.append(len(taken.entries))
        cursor = taken.next_cursor

    assert keys == [f"k/{number:03}" for number in range(250) if number % 5]
    assert sizes == [50, 50, 50, 50], "expired and internal entries shorten no page"


def test_a_list_covers_all_namespaces_or_one(store: Store) -> None:
    for namespace in ("", "fn:a", "fn:b"):
        for key in ("k1", "k2", "k3"):
            put(store, key, namespace, namespace=namespace)
    places, cursor = [], ""
    keys: list[str] = []
    while cursor is not None:
        taken = page(store, limit=2, cursor=cursor)
        places += [(entry.key, entry.namespace) for entry in taken.entries]
        keys += taken.keys
        cursor = taken.next_cursor

    assert places == [(key, name) for key in ("k1", "k2", "k3") for name in ("", "fn:a", "fn:b")]
    assert keys == ["k1", "k2", "k3"]
    assert [entry.value for entry in page(store, namespace="fn:a").entries] == ["fn:a"] * 3
    assert page(store, namespace="").keys == ("k1", "k2", "k3")


def test_a_page_over_all_namespaces_reads_only_its_own_entries(store: Store) -> None:
    count = 300
    with store.transaction() as tx:
        for number in range(count):
            place = {"namespace": f"fn:{number:03}", "key": f"k{number % 3}", "value": number}
            perform(tx, "items.put", agent="a1", store="a1", **place)
    statements: list[str] = []
    store._connection.exec_trace = lambda _, sql, values: statements.append(sql) or True

    first = page(store, limit=10)

    store._connection.exec_trace = None
    assert len([sql for sql in statements if "FROM records" in sql]) <= 3
    places, cursor = [], ""
    while cursor is not None:
        taken = page(store, limit=7, prefix="k", cursor=cursor)
        places += [(entry.key, entry.namespace) for entry in taken.entries]
        cursor = taken.next_cursor
    assert [(entry.key, entry.namespace) for entry in first.entries] == places[:10]
    assert places == sorted((f"k{number % 3}", f"fn:{number:03}") for number in range(count))


@pytest.mark.parametrize("change", [{"prefix": "k"}, {"namespace": "x"}, {"in_context": False}])
def test_a_cursor_with_other_filters_is_refused(store: Store, change: dict[str, Any]) -> None:
    put(store, "k1", 1)
    put(store, "k2", 2)
    cursor = page(store, limit=1).next_cursor

    with pytest.raises(Refused, match="belongs to a list with another"):
        page(store, cursor=cursor, **change)
    with pytest.raises(Refused, match="`cursor` is invalid"):
        page(store, cursor="nonsense")


@pytest.mark.parametrize(("text", "sizes"), [("x" * 10_000, [4]), ("\x01" * 10_000, [2, 2])])
def test_a_page_fits_into_an_answer(store: Store, text: str, sizes: list[int]) -> None:
    for number in range(4):
        put(store, f"k{number}", text)
    pages: list[Any] = []
    cursor = ""
    while cursor is not None:
        with store.transaction() as tx:
            own = {"agent": "a1", "store": "a1", "cursor": cursor}
            pages.append(perform(tx, "items.list", result_bytes=150_000, **own))
        cursor = pages[-1].next_cursor

    assert [key for page in pages for key in page.keys] == ["k0", "k1", "k2", "k3"]
    assert [len(page.entries) for page in pages] == sizes
    assert all(len(orjson.dumps(page)) <= 150_000 for page in pages)


@pytest.mark.slow
def test_a_hundred_thousand_keys_come_in_a_hundred_pages(store: Store) -> None:
    own = {"agent": "a1", "store": "a1"}
    with store.transaction() as tx:
        for number in range(100_000):
            perform(tx, "items.put", key=f"k/{number:05}", value=number, **own)
    keys: list[str] = []
    pages, cursor = 0, ""
    while cursor is not None:
        taken = page(store, limit=1000, cursor=cursor)
        put(store, f"k/{pages:05}", "again")
        put(store, f"j/{pages:05}", "before all pages")
        keys, pages, cursor = [*keys, *taken.keys], pages + 1, taken.next_cursor

    assert keys == [f"k/{number:05}" for number in range(100_000)]
    assert pages == 100
    assert page(store, prefix="k/05", limit=1000).keys == tuple(keys[5000:6000])
