"""Policies of a store and the writes of its operations."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from memrelay.memory.engine.features import POLICIES
from memrelay.memory.engine.origins import Origin
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import PolicyStop
from memrelay.memory.models.policies import feature
from memrelay.memory.models.policies.feature import Policies
from memrelay.memory.models.policies.table import PolicyTable, StoredVerdict
from memrelay.memory.policy_rules import check_policy
from memrelay.memory.records.writing import write
from tests.memory.builders import NOW, make_record, make_store, perform

CARD = "4012 8888 8888 1881"
AWS = "AKIAIOSFODNN7EXAMPLE"
SECRETS = {"name": "no secrets", "match": {"find": "secrets"}, "action": "redact"}
CARDS = {"name": "cards", "match": {"find": "credit_card"}, "action": "refuse"}
Json = dict[str, Any]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def set_policies(store: Store, *policies: Json) -> None:
    with store.transaction() as tx:
        for policy in policies:
            tx.table(PolicyTable).put(check_policy(policy), NOW)


def create(store: Store, content: str = "tea", now_ms: int = NOW, **given: Any) -> str:
    with store.transaction() as tx:
        return str(perform(tx, "records.create", now_ms=now_ms, content=content, **given).guid)


def get(store: Store, guid: str) -> Any:
    return perform(store, "records.get", guid=guid)


def refusal(store: Store, content: str = "tea", **given: Any) -> PolicyStop:
    with pytest.raises(PolicyStop) as stopped:
        create(store, content, **given)
    return stopped.value


def test_a_match_is_redacted_in_each_text_with_the_same_digest(store: Store) -> None:
    set_policies(store, SECRETS)
    guid = create(store, f"use {AWS}", tags=[AWS], data={"a": {"b": [f"x {AWS}"]}, AWS: 1})

    record = get(store, guid)

    digest = record.content.removeprefix("use ")
    assert AWS not in str(record) and digest.startswith("[") and digest.endswith("]")
    assert record.tags == (digest,)
    assert record.data == {"a": {"b": [f"x {digest}"]}, digest: 1}


def test_other_stores_make_other_digests(store: Store, tmp_path: Path) -> None:
    other = make_store(tmp_path, "instances/p/other")
    contents = set()
    for one in (store, other):
        set_policies(one, SECRETS)
        contents.add(get(one, create(one, AWS)).content)
    other.close()
    assert len(contents) == 2


def test_a_refused_write_changes_nothing_and_names_the_policy(store: Store) -> None:
    set_policies(store, CARDS)
    stopped = refusal(store, f"pay with {CARD}")
    assert (stopped.policy, stopped.action, stopped.code) == (
        "cards",
        "refuse",
        "refused_by_policy",
    )
    assert list(stopped.findings) == [CARD] and CARD not in stopped.findings[CARD]
    assert perform(store, "records.list").total == 0


def test_the_strictest_policy_stops_and_all_redactions_apply(store: Store) -> None:
    actions = ("review", "drop", "refuse")
    plain = [{"name": one, "match": {}, "action": one} for one in actions]
    for count, expected in ((1, "review"), (2, "drop"), (3, "refuse")):
        set_policies(store, SECRETS, *plain[:count])
        stopped = refusal(store, AWS)
        assert (stopped.action, stopped.policy) == (expected, expected)
        assert AWS not in stopped.candidate.content and list(stopped.findings) == [AWS]


@pytest.mark.parametrize("field", ["key", "scope", "thread", "owner"])
def test_a_match_in_an_identity_is_refused(store: Store, field: str) -> None:
    set_policies(store, SECRETS)
    stopped = refusal(store, **{field: AWS})
    assert (stopped.policy, stopped.action) == ("no secrets", "refuse")


def test_an_own_pattern_sees_each_text_by_itself(store: Store) -> None:
    policy = {"name": "one", "match": {"find": {"pattern": "^tea$"}}, "action": "refuse"}
    set_policies(store, policy)
    create(store, "green tea", tags=["teas"])
    assert refusal(store, "tea").policy == refusal(store, "x", tags=["tea"]).policy == "one"


def test_a_filter_selects_the_writes_of_a_policy(store: Store) -> None:
    match = {"filter": {"kind": {"eq": "temp"}}}
    set_policies(
        store,
        {"name": "tagged", "match": match, "action": {"tag": "seen"}},
        {"name": "short", "match": match, "action": {"ttl_s": 60}},
    )
    temporary, other = get(store, create(store, kind="temp")), get(store, create(store))
    assert (temporary.tags, other.tags) == (("seen",), ())
    assert (temporary.expires_at, other.expires_at) == ("2023-11-14T22:14:20.000Z", None)


@pytest.mark.parametrize(
    ("wanted", "stopped"),
    [
        ({"verified": True}, "hook"),
        ({"verified": False}, "key jwt turn block none"),
        ({"by": ["key"]}, "key"),
        ({"by": ["jwt", "agent"]}, "jwt turn"),
        ({"by": ["webhook"], "profile": "github"}, "hook"),
        ({"by": ["webhook"], "profile": "slack"}, ""),
        ({"by": ["block"]}, "block"),
        ({"profile": "rest"}, "key jwt"),
    ],
)
def test_a_policy_selects_writes_by_their_origin(store: Store, wanted: Json, stopped: str) -> None:
    set_policies(store, {"name": "o", "match": {"origin": wanted}, "action": "refuse"})
    origins = {
        "hook": Origin("a", profile="webhook:github", verdict="verified"),
        "key": Origin("a", profile="rest", key="0123"),
        "jwt": Origin("a", profile="rest", key="jwt:ada"),
        "turn": Origin("a", profile="turn:1", agent="a", model="m"),
        "block": Origin("a", agent="a"),
        "none": Origin("a"),
    }
    found = []
    for name, origin in origins.items():
        with store.transaction() as tx:
            tx.records.set_actor(NOW, "a", "", origin)
            try:
                write(tx, make_record("tea"))
            except PolicyStop:
                found.append(name)
    assert found == stopped.split()


def test_a_limit_counts_by_source_and_message_time(store: Store) -> None:
    set_policies(store, {"name": "flood", "match": {}, "action": {"limit": "2/60s"}})
    start = NOW - NOW % 60_000
    for at in (start, start + 59_999):
        create(store, now_ms=at, source="a")
    assert refusal(store, now_ms=start + 59_999, source="a").policy == "flood"
    create(store, now_ms=start + 59_999, source="b")
    create(store, now_ms=start + 60_000, source="a")


def test_a_limit_knows_more_sources_than_it_keeps_in_memory(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature, "MOST_COUNTED", 3)
    set_policies(store, {"name": "flood", "match": {}, "action": {"limit": "1/60s"}})
    with store.transaction() as tx:
        for source in "abcdefg":
            perform(tx, "records.create", content="tea", source=source)

        assert len(tx.table(Policies)._counts) <= 3
    assert {refusal(store, source=source).policy for source in "abcdefg"} == {"flood"}


def test_a_limit_is_kept_in_the_file_and_forgets_what_rolls_back(
    store: Store, tmp_path: Path
) -> None:
    set_policies(store, {"name": "flood", "match": {}, "action": {"limit": "1/60s"}})
    with store.trial() as tx:
        perform(tx, "records.create", content="tea", source="a")
    create(store, source="a")
    store.close()
    again = make_store(tmp_path)
    assert again.has_feature(POLICIES)
    assert refusal(again, source="a").policy == "flood"
    again.close()


def test_an_append_over_the_seam_rewrites_the_end(store: Store) -> None:
    set_policies(store, SECRETS)
    for start in ("short ", "long " * 1000):
        guid = create(store, f"{start}AKIAIOSF")
        for text in ("ODNN7EXAMPLE", " and more"):
            with store.transaction() as tx:
                perform(tx, "records.append", guid=guid, content=text, separator="")
        content = get(store, guid).content
        assert AWS not in content and content.startswith(f"{start}[") and " and more" in content


def test_an_append_is_not_held_against_what_was_there_before(store: Store) -> None:
    guid = create(store, CARD)
    set_policies(store, CARDS)
    with store.transaction() as tx:
        perform(tx, "records.append", guid=guid, content="and tea")
        with pytest.raises(PolicyStop):
            perform(tx, "records.update", guid=guid, kind="other")
        with pytest.raises(PolicyStop):
            perform(tx, "records.append", guid=guid, content=CARD)


def test_internal_and_encrypted_values_need_a_rule_that_says_so(tmp_path: Path) -> None:
    store = make_store(tmp_path, "instances/p/stores")
    hidden = {"encrypted": True}, {"in_context": False}
    set_policies(store, CARDS)

    def put(key: str, **given: Any) -> None:
        with store.transaction() as tx:
            perform(tx, "items.put", store="a", agent="a", key=key, value=CARD, **given)

    for at, given in enumerate(hidden):
        put(f"before{at}", **given)
    with pytest.raises(PolicyStop):
        put("shown")
    set_policies(store, CARDS | {"internal": True})
    for at, given in enumerate(hidden):
        with pytest.raises(PolicyStop):
            put(f"after{at}", **given)
    store.close()


def test_verdicts_are_listed_without_what_was_found(store: Store) -> None:
    set_policies(store, SECRETS, CARDS)
    guid = create(store, AWS)
    stopped = refusal(store, CARD)
    with store.transaction() as tx:
        tx.records.set_actor(NOW + 1, "Bob")
        tx.table(Policies).note_stop(stopped)
    table = store.table(PolicyTable)
    assert [one for _, one in table.verdicts(1 << 62, 10, "", "")] == [
        StoredVerdict(NOW + 1, "cards", "refuse", stopped.candidate.guid, "Bob"),
        StoredVerdict(NOW, "no secrets", "redact", guid, "tester"),
    ]
    assert table.counts() == [("cards", "refuse", 1, NOW + 1), ("no secrets", "redact", 1, NOW)]
    events = [one for one in store.feed.after(0, 100) if one.type == "policy.verdict"]
    assert [(one.subject, orjson.loads(one.data or "")["policy"]) for one in events] == [
        (guid, "no secrets"),
        (stopped.candidate.guid, "cards"),
    ]


def test_texts_that_are_no_records_are_redacted_or_refused(store: Store) -> None:
    set_policies(store, SECRETS, CARDS, {"name": "all", "match": {}, "action": "review"})
    policies = store.table(Policies)
    first, second = policies.admit_texts("memory", ["tea", f"a {AWS}"], ())
    assert first == "tea" and AWS not in second
    with pytest.raises(PolicyStop):
        policies.admit_texts("memory", [CARD], ())


def test_an_approved_write_skips_the_review_and_nothing_else(store: Store) -> None:
    set_policies(store, SECRETS, CARDS, {"name": "all", "match": {}, "action": "review"})
    with store.table(Policies).approved():
        guid = create(store, AWS)
        assert refusal(store, CARD).policy == "cards"
    assert AWS not in get(store, guid).content
    assert refusal(store).policy == "all"


def test_all_faults_of_a_policy_are_reported_at_once() -> None:
    with pytest.raises(ValidationError) as refused:
        check_policy(
            {
                "name": "",
                "match": {
                    "filter": {"kynd": {"eq": "a"}},
                    "find": {"pattern": "("},
                    "origin": {"by": ["nobody"]},
                },
                "action": {"limit": "fast"},
                "intern": True,
            }
        )
    places = [".".join(map(str, one["loc"])) for one in refused.value.errors()]
    assert sorted(places) == [
        "action.limit",
        "intern",
        "match.filter.kynd",
        "match.find",
        "match.origin.by",
        "name",
    ]


@pytest.mark.parametrize(
    "action",
    ["redact", "redcat", {}, {"tag": ""}, {"ttl_s": 0}, {"limit": "1/60"}, {"tag": "a", "x": 1}],
)
def test_an_action_that_cannot_be_carried_out_is_a_fault(action: Any) -> None:
    with pytest.raises(ValidationError):
        check_policy({"name": "a", "match": {}, "action": action})


def test_a_document_is_redacted_though_other_records_of_recipes_have_json(tmp_path: Path) -> None:
    recipes = make_store(tmp_path, "instances/p/recipes")
    set_policies(recipes, SECRETS)
    document = {"collection": "c", "uri": "u", "text": f"use {AWS} now"}
    with recipes.transaction() as tx:
        perform(tx, "documents.put", **document)

    found = perform(recipes, "documents.get", collection="c", uri="u")

    assert AWS not in found.text and found.text.startswith("use [aws_access_key_id:")
    recipes.close()


def test_a_redacted_append_to_a_long_record_stays_an_append(store: Store) -> None:
    """Else each one would write the whole record."""
    set_policies(store, SECRETS)
    guid = create(store, "tea " * 2000)
    with store.transaction() as tx:
        perform(tx, "records.append", guid=guid, content="one")

        perform(tx, "records.append", guid=guid, content=f"use {AWS}")

        growing = tx.records.growing(guid, {})
        assert growing is not None and growing.end.endswith("]")
    content = get(store, guid).content
    assert "use [aws_access_key_id:" in content and AWS not in content


def test_a_read_of_an_item_extends_no_life_beyond_that_of_a_policy(tmp_path: Path) -> None:
    """LangGraph restarts the time to live of an item with each read."""
    store = make_store(tmp_path, "instances/p/langgraph")
    set_policies(store, {"name": "short", "match": {}, "action": {"ttl_s": 60}})
    with store.transaction() as tx:
        item = {"scope": "n", "key": "k", "data": {"value": {}}, "ttl": 1000}
        (guid,) = perform(tx, "records.put", items=[item]).guids

    with store.transaction() as tx:
        perform(tx, "records.touch", now_ms=NOW + 30_000, guids=[guid])

        place = tx.records.by_guid(guid)
        assert place is not None and place.state.expires_at == NOW + 60_000
    store.close()
