"""Facts: writes by key, scopes, confidence, counters, pages and deletions."""

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from pydantic import ValidationError

from memrelay.memory.engine.connection import migrations, register_parts_of
from memrelay.memory.engine.idempotency import register_key_functions
from memrelay.memory.engine.store import Store
from memrelay.memory.engine.timestamps import format_time
from memrelay.memory.errors import (
    KeyTaken,
    RecordNotFound,
    Refused,
    ValueTooLarge,
    VersionConflict,
)
from memrelay.memory.models.agent_memory import FACT_KIND, PROCEDURE_KIND
from memrelay.memory.models.agent_memory.facts import FACT_TYPES, FactView
from tests.memory.builders import NOW, find, make_store, perform, read_all


def set_fact(tx: Store, key: str, value: Any, **given: Any) -> Any:
    return perform(tx, "facts.set", key=key, value=value, **given)


def get_fact(tx: Store, key: str, **ids: str) -> FactView:
    found: FactView = perform(tx, "facts.get", key=key, **ids)
    return found


def keys_of(page: Any) -> list[str]:
    return [fact.key for fact in page.items]


def test_a_write_creates_then_updates_one_record(tx: Store) -> None:
    first, second = set_fact(tx, "color", "blue"), set_fact(tx, "color", "green")

    assert (first.action, second.action) == ("created", "updated")
    assert (second.fact.id, second.fact.value) == (first.fact.id, "green")
    assert perform(tx, "facts.list").total == 1


@pytest.mark.parametrize("value", ["", 0, False, None, [1, {"a": "é"}], {"x": None}, 1.5])
def test_a_value_is_any_json(tx: Store, value: Any) -> None:
    set_fact(tx, "k", value)

    found = get_fact(tx, "k").value
    assert found == value and type(found) is type(value)


def test_without_overwrite_the_stored_fact_stays(tx: Store) -> None:
    set_fact(tx, "color", "blue")

    kept = set_fact(tx, "color", "red", overwrite=False)
    new = set_fact(tx, "size", "big", overwrite=False)

    assert (kept.action, kept.fact.value, kept.fact.times_confirmed) == ("skipped", "blue", 1)
    assert new.action == "created"


def test_every_overwrite_keeps_a_history_state_and_the_type(tx: Store) -> None:
    guid = set_fact(tx, "color", "blue").fact.id

    again = set_fact(tx, "color", "blue", fact_type="correction").fact
    set_fact(tx, "color", "red", fact_type="user_preference")

    states = perform(tx, "records.history", guid=guid).items
    assert [state.record.data["fact_type"] for state in states if state.record] == [
        "user_preference",
        "correction",
        "world_knowledge",
    ]
    assert (again.fact_type, again.times_confirmed, again.times_contradicted) == (
        "correction",
        2,
        0,
    )


def test_confidence_falls_with_contradictions_to_half_at_most(tx: Store) -> None:
    set_fact(tx, "k", 0, confidence=0.8)
    confirmed = set_fact(tx, "k", 0).fact
    facts = [set_fact(tx, "k", number).fact for number in range(1, 40)]

    assert confirmed.confidence == 0.8
    assert facts[0].confidence == pytest.approx(0.8 * 3 / 4)
    assert 0.4 < facts[-1].confidence < 0.42
    assert (facts[-1].times_confirmed, facts[-1].times_contradicted) == (41, 39)


def test_values_of_other_types_contradict(tx: Store) -> None:
    for value in (1, True, 1.0, "1"):
        fact = set_fact(tx, "k", value).fact

    assert fact.times_contradicted == 3


def test_the_most_specific_scope_wins(tx: Store) -> None:
    scoped = {"agent": "a1", "user": "u1", "session": "s1"}
    set_fact(tx, "lang", "global")
    for scope, id_ in scoped.items():
        set_fact(tx, "lang", scope, scope=scope, **{f"{scope}_id": id_})
    ids = {f"{scope}_id": id_ for scope, id_ in scoped.items()}

    assert get_fact(tx, "lang", **ids).value == "session"
    assert get_fact(tx, "lang", **(ids | {"session_id": "s2"})).value == "user"
    assert get_fact(tx, "lang", agent_id="a1", user_id="u2").value == "agent"
    assert get_fact(tx, "lang", user_id="u2").value == "global"
    assert get_fact(tx, "lang", user_id="u1").user_id == "u1"


def test_a_user_fact_belongs_to_its_user(tx: Store) -> None:
    mine = set_fact(tx, "k", 1, scope="user", user_id="telegram:7").fact
    ours = set_fact(tx, "k", 1, user_id="telegram:7").fact

    owners = [perform(tx, "records.get", guid=fact.id).owner for fact in (mine, ours)]
    assert owners == ["telegram:7", None]
    assert (mine.scope, mine.user_id, ours.scope, ours.user_id) == (
        "user",
        "telegram:7",
        "global",
        None,
    )


@pytest.mark.parametrize(
    ("given", "rule"),
    [
        ({"scope": "users"}, "did you mean 'user'"),
        ({"scope": "user"}, "needs `user_id`"),
        ({"scope": "session", "user_id": "u"}, "needs `session_id`"),
        ({"scope": "agent"}, "needs `agent_id`"),
        ({"fact_type": "preference"}, "did you mean 'user_preference'"),
        ({"fact_type": "x"}, "known: user_preference"),
        ({"value": {"a": [2**63]}}, "`value.a.0`: an integer has 64 bits"),
        ({"value": "x" * 65_000}, "at most 62464"),
        ({"key": ""}, "at least 1 character"),
        ({"key": "a\nb"}, "match pattern"),
        ({"key": "k" * 256}, "at most 255 characters"),
        ({"confidence": 1.1}, "less than or equal to 1"),
    ],
)
def test_invalid_input_changes_nothing(tx: Store, given: dict[str, Any], rule: str) -> None:
    whole = {"key": "k", "value": 1} | given
    with pytest.raises((Refused, ValidationError), match=rule):
        perform(tx, "facts.set", **whole)

    assert perform(tx, "facts.list").total == 0


def test_deep_and_long_values_are_refused(tx: Store) -> None:
    deep: Any = 1
    for _ in range(17):
        deep = [deep]

    with pytest.raises(Refused, match="nested more than 16 deep"):
        set_fact(tx, "k", deep)
    with pytest.raises(ValueTooLarge):
        set_fact(tx, "k", "é" * 40_000)
    assert set_fact(tx, "k", "é" * 30_000).action == "created"


def test_a_version_protects_a_write_and_a_deletion(tx: Store) -> None:
    old = set_fact(tx, "k", 1).fact
    set_fact(tx, "k", 2)

    for name, given in (("set", {"key": "k", "value": 3}), ("delete", {"id": old.id})):
        with pytest.raises(VersionConflict):
            perform(tx, f"facts.{name}", if_version=[old.version], **given)
    with pytest.raises(VersionConflict, match="does not exist"):
        set_fact(tx, "other", 1, if_version=[old.version])
    assert get_fact(tx, "k").value == 2


def test_the_source_belongs_to_the_value(tx: Store) -> None:
    set_fact(tx, "k", 1, source_episode_id="e1", source_description="a talk")
    same, other = set_fact(tx, "k", 1).fact, set_fact(tx, "k", 2).fact

    assert (same.source_episode_id, same.source_description) == ("e1", "a talk")
    assert (other.source_episode_id, other.source_description) == (None, None)


def test_a_recall_counts_without_history(tx: Store) -> None:
    before = set_fact(tx, "k", 1).fact
    for moment in (NOW + 5, NOW + 9):
        recalled = perform(tx, "facts.recall", key="k", now_ms=moment)
    perform(tx, "facts.get", key="k")
    perform(tx, "facts.search", query="k")

    assert (recalled.access_count, recalled.last_accessed) == (2, format_time(NOW + 9))
    assert (recalled.version, recalled.updated_at) == (before.version, before.updated_at)
    assert get_fact(tx, "k").access_count == 2
    assert len(perform(tx, "records.history", guid=before.id).items) == 1


@pytest.mark.parametrize("name", ["facts.get", "facts.recall"])
def test_a_missing_fact_is_not_found(tx: Store, name: str) -> None:
    with pytest.raises(RecordNotFound, match="no fact has the key 'nope'"):
        perform(tx, name, key="nope", user_id="u1")


def test_a_page_has_the_newest_changes_first(tx: Store) -> None:
    for key in "abc":
        set_fact(tx, key, 1)
    set_fact(tx, "mine", 1, scope="user", user_id="u1")
    set_fact(tx, "theirs", 1, scope="user", user_id="u2", fact_type="correction")

    assert keys_of(perform(tx, "facts.list")) == ["theirs", "mine", "c", "b", "a"]
    page = perform(tx, "facts.list", scope="global", limit=1)
    assert (keys_of(page), page.total) == (["c"], 3)
    perform(tx, "facts.set", key="a", value=2, now_ms=NOW + 1)
    assert keys_of(perform(tx, "facts.list", scope="global", offset=1)) == ["c", "b"]
    assert keys_of(perform(tx, "facts.list", scope="user")) == ["theirs", "mine"]
    assert keys_of(perform(tx, "facts.list", user_id="u1")) == ["mine"]
    assert keys_of(perform(tx, "facts.list", fact_type="correction")) == ["theirs"]


@pytest.mark.parametrize("given", [{"limit": 0}, {"limit": 1001}, {"offset": -1}, {"limit": -1}])
@pytest.mark.parametrize("noun", ["facts", "procedures"])
def test_pages_are_bounded(tx: Store, noun: str, given: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        perform(tx, f"{noun}.list", **given)


def test_deletions_ignore_other_ids_and_can_be_undone(tx: Store) -> None:
    a, b = (set_fact(tx, key, 1).fact.id for key in "ab")
    note = perform(tx, "records.create", content="note").guid

    assert perform(tx, "facts.delete_many", ids=[a, a, note, "nope"]).deleted == 1
    assert perform(tx, "facts.delete_many", ids=[]).deleted == 0
    assert keys_of(perform(tx, "facts.list")) == ["b"]
    perform(tx, "records.restore", guid=a)
    perform(tx, "facts.delete", id=b)
    assert keys_of(perform(tx, "facts.list")) == ["a"]
    for guid in (b, note):
        with pytest.raises(RecordNotFound):
            perform(tx, "facts.delete", id=guid)


def test_a_taken_key_prevents_a_restoration(tx: Store) -> None:
    guid = set_fact(tx, "k", 1).fact.id
    perform(tx, "facts.delete", id=guid)
    set_fact(tx, "k", 2)

    with pytest.raises(KeyTaken, match="belongs to record"):
        perform(tx, "records.restore", guid=guid)


def test_generic_operations_do_not_write_facts(tx: Store) -> None:
    guid = set_fact(tx, "k", 1).fact.id
    perform(tx, "records.create", content="note", scope="other")

    for name, given in (
        ("records.create", {"kind": "memory.fact", "content": "x"}),
        ("records.update", {"guid": guid, "content": "x"}),
        ("records.append", {"guid": guid, "content": "x"}),
    ):
        with pytest.raises(Refused, match="reserved"):
            perform(tx, name, **given)
    appended = perform(tx, "records.append", scope="global", content="x")
    assert appended.created and get_fact(tx, "k").value == 1


def test_the_key_and_pages_use_indexes(tx: Store) -> None:
    set_fact(tx, "k", 1)
    plans = [
        [row[3] for row in tx._connection.execute(f"EXPLAIN QUERY PLAN {sql}")]
        for sql in (
            "SELECT * FROM records AS r WHERE r.kind = 'memory.fact' AND r.scope = 's' "
            "AND r.key = 'k'",
            "SELECT * FROM records AS r WHERE (r.kind = 'memory.fact') "
            "ORDER BY r.updated_at DESC, r.row DESC LIMIT 5",
        )
    ]

    assert "fact_keys" in str(plans[0]) and "fact_changes" in str(plans[1])


def test_records_of_users_with_these_kinds_are_renamed() -> None:
    before = next(at for at, sql in enumerate(migrations()) if "fact_keys" in sql)
    columns = "(guid, number, scope, kind, source, tags, created_at, updated_at"
    with closing(apsw.Connection(":memory:")) as connection:
        register_parts_of(connection)
        register_key_functions(connection)
        for sql in migrations()[:before]:
            connection.execute(sql)
        for kind in (FACT_KIND, PROCEDURE_KIND, "memory.note"):
            connection.execute(
                f"INSERT INTO records{columns}, content) "
                "VALUES (?1, 1, 's', ?1, 's', '[]', 1, 1, '')",
                (kind,),
            )
            connection.execute(
                f"INSERT INTO versions{columns}, in_context, encrypted, length, content, what, "
                "changed_at, actor, reason) "
                "VALUES (?1, 1, 's', ?1, 's', '[]', 1, 1, 0, 0, 0, '', 'update', 1, '', '')",
                (kind,),
            )

        connection.execute(migrations()[before])

        kinds = [
            [kind for (kind,) in connection.execute(f"SELECT kind FROM {table} ORDER BY rowid")]
            for table in ("records", "versions")
        ]
    assert kinds == [["user.memory.fact", "user.memory.procedure", "memory.note"]] * 2


def test_searches_and_lists_of_records_leave_facts_out(tx: Store) -> None:
    perform(tx, "records.create", content="tea is green", kind="note")
    guid = set_fact(tx, "tea", "secret", scope="user", user_id="u1").fact.id

    def listed(**given: Any) -> list[str]:
        return [one.kind for one in perform(tx, "records.list", **given).items]

    for mode in ("fts", "hybrid"):
        hits = perform(tx, "records.search", query="tea", mode=mode).items
        assert [hit.record.kind for hit in hits] == ["note"]
    assert perform(tx, "records.search", query="tea kind:memory.fact").items == ()
    only_facts = {"filter": {"kind": {"eq": "memory.fact"}}}
    assert perform(tx, "records.search", query="tea", **only_facts).items == ()
    assert listed() == ["note"] and listed(**only_facts) == []
    assert listed(kind="memory.fact") == ["memory.fact"]
    assert len(perform(tx, "records.search", query="tea", kind="memory.fact").items) == 1
    assert [record.kind for record in read_all(tx)] == ["note"]
    assert read_all(tx, filters={"kind": "memory.fact"}) == []
    assert [record.kind for record in find(tx, "tea")] == ["note"]
    assert find(tx, "tea", filters={"kind": "memory.fact"}) == []
    perform(tx, "facts.delete", id=guid)
    assert listed(deleted=True) == []


def test_a_reopened_store_still_leaves_facts_out(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    with store.transaction() as tx:
        set_fact(tx, "tea", 1)
    store.close()

    again = make_store(tmp_path)
    with again.transaction() as tx:
        assert read_all(tx) == [] and get_fact(tx, "tea").value == 1
    again.close()


def test_a_list_with_a_query_can_be_the_first_call(tx: Store) -> None:
    assert perform(tx, "facts.list", query="tea").total == 0


def test_the_types_are_those_of_the_model() -> None:
    assert len(FACT_TYPES) == len(set(FACT_TYPES)) == 5
