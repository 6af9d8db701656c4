"""Items of LangGraph stores: look-ups, writes, deletions, scopes and times to live."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from pydantic import ValidationError

from memrelay.memory.engine.connection import migrations, register_parts_of
from memrelay.memory.engine.idempotency import register_key_functions
from memrelay.memory.engine.retention import delete_expired
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import KeyTaken, Refused
from memrelay.memory.models.langgraph.table import LanggraphItemTable, Pattern
from tests.memory.builders import NOW, make_store, perform

KIND = "memory.item"
MINUTE = 60_000


def put(tx: Store, scope: str, key: str, value: Any, *, now_ms: int = NOW, **more: Any) -> str:
    item = {"scope": scope, "key": key, "data": {"value": value}} | more
    return str(perform(tx, "records.put", now_ms=now_ms, items=[item]).guids[0])


def value_of(tx: Store, scope: str, key: str, *, now_ms: int = NOW) -> Any:
    found = perform(tx, "records.find", now_ms=now_ms, scope=scope, keys=[key]).items
    return found[0].data["value"] if found else None


def scopes(tx: Store, **given: Any) -> tuple[str, ...]:
    return tuple(perform(tx, "records.scopes", **given).scopes)


def test_an_item_is_found_by_scope_and_key(tx: Store) -> None:
    put(tx, "users.ada", "diet", {"food": "pizza"})

    assert value_of(tx, "users.ada", "diet") == {"food": "pizza"}
    assert value_of(tx, "users", "diet") is None
    assert value_of(tx, "users.ada", "Diet") is None


def test_replacing_an_item_keeps_its_guid_and_its_creation_time(tx: Store) -> None:
    guid = put(tx, "n", "k", {"v": 1})

    assert put(tx, "n", "k", {"v": 2}, now_ms=NOW + 5) == guid
    (item,) = perform(tx, "records.find", scope="n", keys=["k"]).items
    assert item.created_at < item.updated_at
    assert len(perform(tx, "records.history", guid=guid).items) == 2


def test_a_batch_writes_the_last_item_of_a_key(tx: Store) -> None:
    items = [{"scope": "n", "key": "k", "data": {"value": {"v": v}}} for v in range(3)]

    output = perform(tx, "records.put", items=items)

    assert (len(set(output.guids)), len(output.guids), output.created) == (1, 3, 1)
    assert value_of(tx, "n", "k") == {"v": 2}


@pytest.mark.parametrize(
    ("item", "rule"),
    [
        ({"data": {}}, "needs the key `value`"),
        ({"data": {"value": 1}}, "needs the key `value`"),
        ({"data": {"value": {"t": "x" * (1 << 16)}}}, "65536 bytes"),
        ({"data": {"value": {"t": "x" * 65_510}}, "ttl": 1000}, "with `ttl_m`"),
        ({"ttl": 0}, "greater than 0"),
        ({"ttl": -1}, "greater than 0"),
        ({"key": ""}, "at least 1 character"),
        ({"scope": "s" * 257}, "at most 256 characters"),
        ({"kind": "note"}, "unexpected"),
    ],
)
def test_an_invalid_item_is_refused(tx: Store, item: dict[str, Any], rule: str) -> None:
    whole = {"scope": "n", "key": "k", "data": {"value": {}}} | item

    with pytest.raises((Refused, ValidationError), match=f"(?i){rule}"):
        perform(tx, "records.put", items=[whole])

    assert value_of(tx, "n", "k") is None


def test_removed_items_are_gone_and_can_be_restored(tx: Store) -> None:
    guid = put(tx, "n", "k", {"v": 1})

    assert perform(tx, "records.remove", scope="n", keys=["k", "other"]).removed == 1
    assert value_of(tx, "n", "k") is None
    perform(tx, "records.restore", guid=guid)
    assert value_of(tx, "n", "k") == {"v": 1}


def test_a_taken_key_prevents_the_restoration(tx: Store) -> None:
    guid = put(tx, "n", "k", {"v": 1})
    perform(tx, "records.remove", scope="n", keys=["k"])
    put(tx, "n", "k", {"v": 2})

    with pytest.raises(KeyTaken, match="belongs to record"):
        perform(tx, "records.restore", guid=guid)


def test_an_update_by_guid_is_refused(tx: Store) -> None:
    guid = put(tx, "n", "k", {"v": 1})

    with pytest.raises(Refused, match="reserved"):
        perform(tx, "records.update", guid=guid, key="other")


def test_records_of_other_kinds_are_not_items(tx: Store) -> None:
    guid = perform(tx, "records.create", content="text", kind="note", scope="n", key="k").guid

    assert value_of(tx, "n", "k") is None
    assert perform(tx, "records.remove", scope="n", keys=["k"]).removed == 0
    assert perform(tx, "records.touch", guids=[guid]).touched == 0
    assert scopes(tx) == ()


def test_an_expired_item_is_in_no_answer(tx: Store) -> None:
    put(tx, "n", "k", {"t": "tea"}, ttl=1, content="tea")
    after = NOW + MINUTE

    assert value_of(tx, "n", "k", now_ms=after - 1) == {"t": "tea"}
    assert value_of(tx, "n", "k", now_ms=after) is None
    assert perform(tx, "records.list", kind=KIND, now_ms=after).total == 0
    assert perform(tx, "records.search", query="tea", kind=KIND, now_ms=after).items == ()
    assert perform(tx, "records.scopes", now_ms=after).scopes == ()


def test_a_write_to_an_expired_key_makes_a_new_item(tx: Store) -> None:
    first = put(tx, "n", "k", {"v": 1}, ttl=1)

    second = put(tx, "n", "k", {"v": 2}, now_ms=NOW + MINUTE)

    assert first != second
    assert value_of(tx, "n", "k", now_ms=NOW + MINUTE) == {"v": 2}
    assert tx.records.versions.count_of(first) == 0


def test_a_touched_item_keeps_its_version_and_its_history(tx: Store) -> None:
    guid = put(tx, "n", "k", {"v": 1}, ttl=1)
    before = perform(tx, "records.get", guid=guid)

    assert perform(tx, "records.touch", guids=[guid, guid], now_ms=NOW + 30_000).touched == 1

    after = perform(tx, "records.get", guid=guid)
    assert (after.version, after.updated_at) == (before.version, before.updated_at)
    assert after.expires_at > before.expires_at
    assert len(perform(tx, "records.history", guid=guid).items) == 1
    assert value_of(tx, "n", "k", now_ms=NOW + 30_000 + MINUTE - 1) == {"v": 1}
    assert value_of(tx, "n", "k", now_ms=NOW + 30_000 + MINUTE) is None


def test_touching_has_no_effect_on_items_without_end_and_on_expired_ones(tx: Store) -> None:
    forever, short = put(tx, "n", "a", {}), put(tx, "n", "b", {}, ttl=1)

    touched = perform(tx, "records.touch", guids=[forever, short], now_ms=NOW + MINUTE).touched

    assert touched == 0
    assert value_of(tx, "n", "a", now_ms=NOW + 10 * MINUTE) == {}


def test_replacing_an_item_replaces_its_end(tx: Store) -> None:
    put(tx, "n", "k", {"v": 1}, ttl=1)
    put(tx, "n", "k", {"v": 2})

    (item,) = perform(tx, "records.find", scope="n", keys=["k"], now_ms=NOW + MINUTE).items

    assert (item.expires_at, item.data) == (None, {"value": {"v": 2}})


def test_expired_items_are_deleted(tmp_path: Path) -> None:
    with closing(make_store(tmp_path)) as store:
        with store.transaction() as tx:
            put(tx, "n", "k", {}, ttl=1)

        assert delete_expired(store, NOW + MINUTE, 90).gone == 1


def test_scopes_are_sorted_by_their_labels(tx: Store) -> None:
    for scope in ("a", "a-b", "a.b", "a.b.c", "b"):
        put(tx, scope, "k", {})

    assert scopes(tx) == ("a", "a.b", "a.b.c", "a-b", "b")
    assert scopes(tx, offset=1, limit=2) == ("a.b", "a.b.c")
    assert perform(tx, "records.scopes", limit=1).total == 5


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"prefix": ["a"]}, ("a.b.c", "a.b.d.e", "a.b.f", "a.c.f")),
        ({"prefix": ["a", "b"], "max_depth": 3}, ("a.b.c", "a.b.d", "a.b.f")),
        ({"suffix": ["f"]}, ("a.b.f", "a.c.f")),
        ({"prefix": ["*", "c"]}, ("a.c.f", "ab.c")),
        ({"prefix": ["a", "*", "f"]}, ("a.b.f", "a.c.f")),
        ({"suffix": ["b", "*"]}, ("a.b.c", "a.b.f")),
        ({"prefix": ["a"], "suffix": ["x", "c"]}, ()),
        ({"max_depth": 1}, ("a", "ab")),
    ],
)
def test_scopes_are_filtered_by_labels(
    tx: Store, given: dict[str, Any], expected: tuple[str, ...]
) -> None:
    for scope in ("a.b.c", "a.b.d.e", "a.b.f", "a.c.f", "ab.c"):
        put(tx, scope, "k", {})

    assert scopes(tx, **given) == expected


def test_a_full_answer_names_the_keys_that_remain(tx: Store) -> None:
    for key in ("a", "b", "c"):
        put(tx, "n", key, {"t": "x" * 1000})

    first = perform(tx, "records.find", scope="n", keys=["c", "no", "a", "b"], result_bytes=2600)

    assert [item.key for item in first.items] == ["c", "a"]
    assert first.remaining == ("b",)


def test_a_list_by_change_has_offset_and_total(tx: Store) -> None:
    for number, key in enumerate("abc"):
        put(tx, "n", key, {}, now_ms=NOW + number)
    put(tx, "n", "a", {"v": 1}, now_ms=NOW + 9)

    page = perform(
        tx, "records.list", kind=KIND, sort="updated_at", order="desc", offset=1, limit=2
    )

    assert [item.key for item in page.items] == ["c", "b"]
    assert (page.total, page.next_cursor) == (3, None)
    by_arrival = perform(tx, "records.list", kind=KIND, offset=1)
    assert [item.key for item in by_arrival.items] == ["b", "c"]


@pytest.mark.parametrize("given", [{"cursor": "1"}, {"deleted": True}])
def test_a_page_by_offset_takes_no_cursor(tx: Store, given: dict[str, Any]) -> None:
    with pytest.raises(Refused, match="without a cursor"):
        perform(tx, "records.list", offset=1, **given)


@pytest.mark.parametrize("mode", ["fts", "hybrid"])
def test_a_plain_query_has_no_syntax(tx: Store, mode: str) -> None:
    put(tx, "n", "k", {}, content="tea kind")

    for query in ("kind:note", 'tea "', "-tea"):
        found = perform(tx, "records.search", query=query, kind=KIND, mode=mode, plain=True).items
        assert [hit.record.key for hit in found] == ["k"] or (mode, query) == ("fts", "kind:note")
    assert perform(tx, "records.search", query="kind:note", kind=KIND, mode=mode).items == ()


def test_an_item_without_text_is_never_found(tx: Store) -> None:
    put(tx, "n", "k", {"t": "tea"})

    for mode in ("fts", "hybrid"):
        assert not perform(tx, "records.search", query="tea", kind=KIND, mode=mode).items


QUERIES: dict[str, Callable[[Store], object]] = {
    "find": lambda tx: list(tx.table(LanggraphItemTable).at_keys("n", ["k"])),
    "write": lambda tx: tx.table(LanggraphItemTable).find_to_write("n", "k"),
    "scopes": lambda tx: list(tx.table(LanggraphItemTable).scopes(Pattern())),
    "scopes of a prefix": lambda tx: list(tx.table(LanggraphItemTable).scopes(Pattern(("n",)))),
    "touch": lambda tx: tx.table(LanggraphItemTable).touch(["x"]),
    "changes": lambda tx: perform(tx, "records.list", kind=KIND, sort="updated_at", order="desc"),
    "changes of a prefix": lambda tx: perform(
        tx,
        "records.list",
        kind=KIND,
        sort="updated_at",
        order="desc",
        filter={
            "scope": {"gte": "n", "lt": "n/"},
            "or": [{"scope": {"eq": "n"}}, {"scope": {"gte": "n."}}],
        },
    ),
}


@pytest.mark.parametrize("name", QUERIES)
def test_every_query_uses_an_index(tx: Store, name: str) -> None:
    put(tx, "n", "k", {}, ttl=1)
    statements: list[tuple[str, Any]] = []
    connection = tx._connection
    connection.exec_trace = lambda _, sql, values: statements.append((sql, values)) or True
    QUERIES[name](tx)
    connection.exec_trace = None
    plans = [
        str(detail)
        for sql, values in statements
        if "records" in sql and sql.startswith(("SELECT", "UPDATE"))
        for _, _, _, detail in connection.execute(f"EXPLAIN QUERY PLAN {sql}", values)
    ]

    reads = [plan for plan in plans if plan.startswith(("SEARCH", "SCAN")) and "CONST" not in plan]
    assert reads
    assert all("langgraph_items" in plan or "autoindex" in plan for plan in reads), plans
    if name in ("find", "write", "changes"):
        assert not any("TEMP B-TREE" in plan for plan in plans), plans


def test_records_that_have_the_kind_already_get_another_one() -> None:
    with closing(apsw.Connection(":memory:")) as connection:
        register_parts_of(connection)
        register_key_functions(connection)
        for sql in migrations()[:24]:
            connection.execute(sql)
        connection.execute(
            "INSERT INTO records(guid, scope, kind, content, source, created_at, updated_at, key) "
            "VALUES ('1', 's', 'memory.item', '', 'x', 1, 1, 'k'), "
            "('2', 's', 'memory.item', '', 'x', 1, 1, 'k')"
        )

        connection.execute(migrations()[24])

        kinds = connection.execute("SELECT DISTINCT kind FROM records").fetchall()
    assert kinds == [("user.memory.item",)]
