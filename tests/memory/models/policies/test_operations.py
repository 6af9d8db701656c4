"""The operations on policies."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.features import POLICIES
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import PolicyStop, RecordNotFound, Refused
from memrelay.memory.models.policies.table import PolicyTable, declare_policies
from memrelay.memory.transfer.export import export_lines, to_json
from tests.memory.builders import MEMORY_ID, NOW, make_store, perform, perform_at

CARD = "4012 8888 8888 1881"
AWS = "AKIAIOSFODNN7EXAMPLE"
SECRETS = {"name": "no secrets", "match": {"find": "secrets"}, "action": "redact"}
CARDS = {"name": "cards", "match": {"find": "credit_card"}, "action": "refuse"}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def call(store: Store, name: str, /, **given: Any) -> Any:
    return perform_at(store, NOW, name, **given)


def test_a_policy_holds_until_it_is_deleted(store: Store) -> None:
    call(store, "policies.set", policy=CARDS)
    call(store, "policies.set", policy=SECRETS)
    with pytest.raises(PolicyStop):
        call(store, "records.create", content=CARD)
    call(store, "records.create", content=AWS)

    listed = call(store, "policies.list").items
    assert [(one.name, one.policy, one.verdicts) for one in listed] == [
        ("cards", CARDS, 0),
        ("no secrets", SECRETS, 1),
    ]
    call(store, "policies.delete", name="cards")
    call(store, "records.create", content=CARD)
    with pytest.raises(RecordNotFound):
        call(store, "policies.delete", name="cards")
    call(store, "policies.delete", name="no secrets")
    assert not store.has_feature(POLICIES)


def test_a_set_policy_keeps_its_place(store: Store) -> None:
    for policy in (SECRETS, CARDS, SECRETS | {"action": "drop"}):
        call(store, "policies.set", policy=policy)
    listed = call(store, "policies.list").items
    assert [(one.name, one.policy["action"]) for one in listed] == [
        ("no secrets", "drop"),
        ("cards", "refuse"),
    ]


def test_declared_policies_come_first_and_only_a_deploy_changes_them(store: Store) -> None:
    call(store, "policies.set", policy=SECRETS)
    with store.transaction() as tx:
        tx.table(PolicyTable).declare("p", [CARDS], NOW)
    listed = call(store, "policies.list").items
    assert [(one.name, one.declared_by) for one in listed] == [("cards", "p"), ("no secrets", "")]
    with pytest.raises(Refused, match="declares"):
        call(store, "policies.set", policy=CARDS)
    with pytest.raises(Refused, match="declares"):
        call(store, "policies.delete", name="cards")
    change = store.extent
    declare_policies(store, "p", [CARDS], NOW)
    assert store.extent == change
    declare_policies(store, "p", [], NOW)
    assert [one.name for one in call(store, "policies.list").items] == ["no secrets"]


def test_a_test_shows_what_would_be_stored_and_writes_nothing(store: Store) -> None:
    call(store, "policies.set", policy=SECRETS)
    shown = perform(store, "policies.test", content=f"key {AWS}", tags=[AWS])
    assert (shown.outcome, [one.action for one in shown.actions]) == ("stored", ["redact"])
    assert AWS not in str(shown) and shown.content == f"key {shown.tags[0]}"
    created = call(store, "records.create", content=f"key {AWS}")
    assert perform(store, "records.get", guid=created.guid).content == shown.content

    shown = perform(store, "policies.test", content=CARD, policies=[CARDS])
    assert (shown.outcome, shown.policy) == ("refuse", "cards")
    assert perform(store, "records.list").total == 1


def test_a_scan_names_the_records_of_the_past_and_changes_none(store: Store) -> None:
    texts = ["tea", AWS, CARD, f"{AWS} {CARD}"]
    guids = [call(store, "records.create", content=text).guid for text in texts]
    for policy in (SECRETS, CARDS):
        call(store, "policies.set", policy=policy)
    found, after = dict[str, list[str]](), 0
    while True:
        page = perform(store, "policies.scan", after=after, limit=1)
        assert page.scanned == 1
        found |= {one.guid: [act.action for act in one.actions] for one in page.items}
        if not (after := page.next):
            break
    assert found == {guids[1]: ["redact"], guids[2]: ["refuse"], guids[3]: ["redact", "refuse"]}
    assert perform(store, "policies.verdicts").items == ()


def test_policies_are_applied_to_the_past_with_a_version_in_the_history(store: Store) -> None:
    texts = ["tea", AWS, f"{AWS} {CARD}"]
    guids = [call(store, "records.create", content=text).guid for text in texts]
    for policy in (SECRETS, CARDS, {"name": "t", "match": {}, "action": {"tag": "old"}}):
        call(store, "policies.set", policy=policy)

    first = call(store, "policies.apply", limit=2)
    second = call(store, "policies.apply", after=first.next)

    assert (first.scanned, second.scanned, second.next) == (2, 1, 0)
    assert [one.guid for one in (*first.changed, *second.changed)] == guids
    records = [perform(store, "records.get", guid=guid) for guid in guids]
    assert all(one.tags == ("old",) and AWS not in one.content for one in records)
    assert CARD in records[2].content
    assert len(perform(store, "records.history", guid=guids[1]).items) == 2
    assert call(store, "policies.apply").changed == ()


def test_verdicts_are_paged_and_counted(store: Store) -> None:
    call(store, "policies.set", policy={"name": "t", "match": {}, "action": {"tag": "a"}})
    guids = [call(store, "records.create", content=text).guid for text in "abc"]
    first = perform(store, "policies.verdicts", limit=2)
    second = perform(store, "policies.verdicts", limit=2, before=first.next)
    assert [one.guid for one in (*first.items, *second.items)] == guids[::-1]
    assert second.next == 0 and [one.total for one in first.counts] == [3]
    assert perform(store, "policies.verdicts", policy="other").items == ()


def test_an_export_takes_along_the_policies_of_the_store_only(store: Store, tmp_path: Path) -> None:
    call(store, "policies.set", policy=CARDS)
    with store.transaction() as tx:
        tx.table(PolicyTable).declare("p", [SECRETS], NOW)
    lines = [to_json(line).decode() for line in export_lines(Path(store.path), MEMORY_ID, NOW)]
    other = make_store(tmp_path, "instances/p/other")
    perform_at(other, NOW, "records.import", lines=lines)
    assert [one.policy for one in perform(other, "policies.list").items] == [CARDS]
    with pytest.raises(PolicyStop):
        perform_at(other, NOW, "records.create", content=CARD)
    other.close()
