"""Users of agents: identities, preferences, contexts, merges and erasures on a real store."""

from typing import Any

import pytest
from msgspec import msgpack

from memrelay.memory.engine.store import Store
from memrelay.memory.errors import KeyTaken, RecordNotFound, Refused, ValueTooLarge, VersionConflict
from memrelay.memory.models.agent_memory.table import EpisodeTable, UserTable
from memrelay.memory.models.agent_memory.user_records import canonical_id, split_canonical
from memrelay.memory.models.agent_memory.users import Quotes
from tests.memory.builders import NOW, make_record, perform, write


def identify(tx: Store, channel: str, ident: str, now_ms: int = NOW, **given: Any) -> Any:
    return perform(tx, "users.identify", now_ms=now_ms, channel=channel, channel_id=ident, **given)


def set_fact(tx: Store, key: str, value: Any, user: str) -> Any:
    return perform(tx, "facts.set", key=key, value=value, scope="user", user_id=user)


def fact(tx: Store, key: str, user: str) -> Any:
    return perform(tx, "facts.get", key=key, user_id=user).value


def begin(tx: Store, user: str = "") -> str:
    return str(perform(tx, "episodes.begin", agent_id="workflow:a", user_id=user).id)


def test_a_user_is_new_only_once(tx: Store) -> None:
    first = identify(tx, "telegram", "7", display_name="Ada", telegram_username="ada7")
    again = identify(tx, "telegram", "7", NOW + 5, display_name="Countess")

    assert (first.is_new_user, again.is_new_user) == (True, False)
    assert again.user.canonical_id == "telegram:7" and again.user.id == first.user.id
    assert (again.user.display_name, again.user.telegram_id) == ("Ada", "7")
    assert (first.user.total_conversations, again.user.total_conversations) == (1, 2)
    assert again.user.last_seen_at > first.user.last_seen_at == first.user.first_seen_at
    assert again.user.version == first.user.version


def test_ids_of_a_channel_are_encoded_and_compared() -> None:
    assert canonical_id("webhook", "a:b%") == "webhook:a%3Ab%25"
    assert split_canonical("webhook:a%3Ab%25") == ("webhook", "a:b%")
    assert canonical_id("email", " Ada@X.org ") == "email:ada@x.org"
    for channel, ident in (("", "7"), ("a:b", "7"), ("chat", " "), ("chat", "x" * 300)):
        with pytest.raises(Refused):
            canonical_id(channel, ident)


def test_an_identifier_finds_a_user_of_another_channel(tx: Store) -> None:
    identify(tx, "telegram", "7")
    perform(tx, "users.update", id="telegram:7", email="Ada@x.org")

    found = identify(tx, "email", "ada@X.org")

    assert (found.user.canonical_id, found.is_new_user) == ("telegram:7", False)
    assert perform(tx, "users.list").total == 1


def test_preferences_are_merged_and_null_removes_one(tx: Store) -> None:
    identify(tx, "chat", "ada")
    for given in ({"tea": "green"}, {"size": {"cup": 2}}, {"lang": "en"}, {"tea": None}):
        perform(tx, "users.update", id="chat:ada", preferences=given)

    user = perform(tx, "users.get", id="chat:ada")

    assert user.preferences == {"size": {"cup": 2}, "lang": "en"}
    with pytest.raises(ValueTooLarge):
        for number in range(3):
            big = {f"p{number}": "x" * 30_000}
            perform(tx, "users.update", id="chat:ada", preferences=big)


def test_an_identifier_belongs_to_one_user(tx: Store) -> None:
    identify(tx, "telegram", "7")
    other = identify(tx, "chat", "bob").user

    for given in ({"telegram_id": "7"}, {"telegram_id": " 7 "}):
        with pytest.raises(KeyTaken, match=r"users\.merge"):
            perform(tx, "users.update", id="chat:bob", **given)
    changed = perform(tx, "users.update", id="chat:bob", display_name="Bob")
    with pytest.raises(VersionConflict):
        perform(tx, "users.update", id="chat:bob", email="b@x.org", if_version=[other.version])
    assert changed.display_name == "Bob"


def test_users_are_listed_by_the_last_time_seen(tx: Store) -> None:
    for number, name in enumerate(("ada", "bob", "eve")):
        identify(tx, "chat", name, NOW + number)
    identify(tx, "chat", "ada", NOW + 10)

    page = perform(tx, "users.list", limit=2)
    rest = perform(tx, "users.list", limit=2, offset=2)

    assert [one.canonical_id for one in page.items] == ["chat:ada", "chat:eve"]
    assert [one.canonical_id for one in rest.items] == ["chat:bob"] and page.total == 3


def test_the_context_has_facts_and_history_of_the_user(tx: Store) -> None:
    identify(tx, "telegram", "7", display_name="Ada")
    set_fact(tx, "color", "blue", "telegram:7")
    set_fact(tx, "tea", {"sort": "green"}, "telegram:7")
    set_fact(tx, "color", "red", "telegram:8")
    perform(tx, "facts.recall", key="tea", user_id="telegram:7")
    for user in ("telegram:7", "telegram:8", ""):
        perform(tx, "episodes.complete", id=begin(tx, user), success=True, summary=f"of {user}")

    known = perform(tx, "users.context", id="telegram:7")
    unknown = perform(tx, "users.context", id="telegram:9")

    assert [(one.key, one.value) for one in known.facts] == [
        ("tea", {"sort": "green"}),
        ("color", "blue"),
    ]
    assert [(one.summary, one.success) for one in known.history] == [("of telegram:7", True)]
    assert (known.is_new, known.display_name, known.channel) == (False, "Ada", "telegram")
    assert (unknown.is_new, unknown.facts, unknown.history) == (True, (), ())


def test_a_context_is_bounded(tx: Store) -> None:
    identify(tx, "chat", "ada")
    for number in range(30):
        set_fact(tx, f"k{number}", "x" * (8000 if number < 5 else 10), "chat:ada")
        begin(tx, "chat:ada")

    known = perform(tx, "users.context", id="chat:ada")

    assert (len(known.facts), len(known.history)) == (20, 5)
    for number in range(30):
        set_fact(tx, f"k{number}", "x" * 30_000, "chat:ada")
    assert len(perform(tx, "users.context", id="chat:ada").facts) == 2


def test_a_merge_moves_all_that_belongs_to_a_user(tx: Store) -> None:
    for channel, ident, name in (("telegram", "7", "Ada"), ("email", "a@x.org", "")):
        identify(tx, channel, ident, display_name=name)
    source, target = "telegram:7", "email:a@x.org"
    lost = set_fact(tx, "color", "blue", source).fact.id
    set_fact(tx, "color", "red", target)
    set_fact(tx, "tea", "green", source)
    perform(tx, "facts.recall", key="tea", user_id=source)
    episode = begin(tx, source)
    perform(tx, "episodes.add", id=episode, text="hi")
    perform(tx, "users.update", id=source, preferences={"a": 1, "b": 1})
    perform(tx, "users.update", id=target, preferences={"b": 2})

    merged = perform(tx, "users.merge", id=source, into=target)

    assert (merged.canonical_id, merged.telegram_id, merged.display_name) == (target, "7", "Ada")
    assert merged.preferences == {"a": 1, "b": 2} and merged.total_conversations == 2
    assert (fact(tx, "color", target), fact(tx, "tea", target)) == ("red", "green")
    assert perform(tx, "facts.get", key="tea", user_id=target).access_count == 1
    assert perform(tx, "episodes.get", id=episode).episode.user_id == target
    assert {place.state.owner for place in tx.table(EpisodeTable).steps(episode)} == {target}
    history = perform(tx, "records.history", guid=lost)
    assert [one.record.content for one in history.items if one.record] == ["color: blue"]
    again = identify(tx, "telegram", "7")
    assert (again.user.canonical_id, again.is_new_user) == (target, False)
    assert perform(tx, "users.get", id=source).canonical_id == target


def test_the_id_of_a_merged_user_still_reads_and_writes(tx: Store) -> None:
    for ident in "abc":
        identify(tx, "chat", ident)
    perform(tx, "users.merge", id="chat:a", into="chat:b")
    perform(tx, "users.merge", id="chat:b", into="chat:c")

    written = set_fact(tx, "tea", "green", "chat:a").fact
    episode = begin(tx, "chat:b")

    assert written.user_id == "chat:c"
    for user in ("chat:a", "chat:b", "chat:c"):
        assert fact(tx, "tea", user) == "green"
        assert perform(tx, "facts.recall", key="tea", user_id=user).user_id == "chat:c"
        assert len(perform(tx, "facts.search", query="tea", user_id=user).items) == 1
        assert perform(tx, "facts.list", user_id=user).total == 1
        listed = perform(tx, "episodes.list", user_id=user).items
        assert [(one.id, one.user_id) for one in listed] == [(episode, "chat:c")]


def test_merges_resolve_chains_and_refuse_cycles(tx: Store) -> None:
    for name in ("a", "b", "c", "d"):
        identify(tx, "chat", name)
    perform(tx, "users.merge", id="chat:a", into="chat:b")
    perform(tx, "users.merge", id="chat:b", into="chat:c")

    for given in (("chat:c", "chat:a"), ("chat:a", "chat:c"), ("chat:d", "chat:d")):
        with pytest.raises(Refused, match="already the same user"):
            perform(tx, "users.merge", id=given[0], into=given[1])
    merged = perform(tx, "users.merge", id="chat:d", into="chat:a")

    assert merged.canonical_id == "chat:c" and merged.total_conversations == 4
    assert identify(tx, "chat", "a").user.canonical_id == "chat:c"
    with pytest.raises(RecordNotFound):
        perform(tx, "users.merge", id="chat:x", into="chat:a")


def test_deleting_a_user_keeps_its_facts(tx: Store) -> None:
    user = identify(tx, "chat", "ada").user
    set_fact(tx, "color", "blue", "chat:ada")

    assert perform(tx, "users.delete_many", ids=[user.id, "nobody"]).deleted == 1

    assert fact(tx, "color", "chat:ada") == "blue"
    with pytest.raises(RecordNotFound):
        perform(tx, "users.get", id="chat:ada")
    assert identify(tx, "chat", "ada").is_new_user


def test_a_restored_user_needs_its_identifiers(tx: Store) -> None:
    user = identify(tx, "telegram", "7").user
    perform(tx, "users.delete_many", ids=[user.id])
    identify(tx, "chat", "bob")
    perform(tx, "users.update", id="chat:bob", telegram_id="7")

    with pytest.raises(KeyTaken):
        perform(tx, "records.restore", guid=user.id)


def test_forgetting_leaves_only_what_belongs_to_others(tx: Store) -> None:
    for ident in ("7", "77"):
        identify(tx, "telegram", ident)
        user = f"telegram:{ident}"
        set_fact(tx, "color", "blue", user)
        perform(tx, "episodes.add", id=begin(tx, user), text="hi")
    identify(tx, "chat", "ada")
    set_fact(tx, "size", 3, "chat:ada")
    perform(tx, "users.merge", id="chat:ada", into="telegram:7")
    shared = begin(tx)
    for text in ("ask telegram:7", "ask telegram:77", "seven is 7"):
        perform(tx, "episodes.add", id=shared, text=text)
    write(tx, make_record("an observation"))
    before = len(tx.table(UserTable).belongings("telegram:77"))

    forgotten = perform(tx, "users.forget", id="chat:ada", reason="asked for")

    assert forgotten.records == 2 + 2 + 2 + 1
    assert [one.canonical_id for one in perform(tx, "users.list").items] == ["telegram:77"]
    assert len(tx.table(UserTable).belongings("telegram:77")) == before == 3
    kept = [one.text for one in perform(tx, "episodes.get", id=shared).steps]
    assert kept == ["ask telegram:77", "seven is 7"]
    assert (
        tx.table(UserTable).belongings("telegram:7")
        == tx.table(UserTable).belongings("chat:ada")
        == []
    )
    assert perform(tx, "records.list", kind="observation").total == 1


def test_identifiers_count_as_whole_words() -> None:
    quotes = Quotes(["telegram:7", "7", "Ada", "ada@x.org", "7712345"])

    for text in ("telegram:7", "user telegram:7.", "telegram:7:w", "ADA@X.org, hi"):
        assert quotes.in_text(text), text
    assert quotes.in_text('{"from": {"id": 7712345}}')
    for text in ("telegram:77", "7", "Ada drinks", "bada@x.org", "ada@x.org.uk", "77123456"):
        assert not quotes.in_text(text), text
    assert quotes.in_fields({"id": 7}) and quotes.in_fields({"username": "ada"})
    assert not quotes.in_fields({"id": 77, "size": 7, "name": "Ada"})


def test_identifiers_are_found_in_serialized_values() -> None:
    quotes = Quotes(["telegram:7"])
    inner = msgpack.encode(["module", "Message", {"content": f"telegram:7 {'x' * 54}"}])

    assert quotes.in_data(msgpack.encode({"a": [msgpack.Ext(5, inner)]}))
    assert quotes.in_data(b"\xc1 telegram:7")
    assert not quotes.in_data(msgpack.encode({"a": "telegram:77"}))


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        ("scope = 'users' AND key = 'u'", "user_keys"),
        ("json_extract(data, '$.telegram_id') = '7'", "user_telegram_ids"),
        ("json_extract(data, '$.email') = 'e'", "user_emails"),
    ],
)
def test_look_ups_use_the_indexes(tx: Store, sql: str, index: str) -> None:
    which = f"SELECT guid FROM records WHERE kind = 'memory.user' AND {sql}"
    plan = " ".join(row[3] for row in tx.records._connection.execute(f"EXPLAIN QUERY PLAN {which}"))
    assert index in plan
