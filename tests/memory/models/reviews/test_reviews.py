"""Proposals in a store: how a stopped write waits, and what each decision makes of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from memrelay import open_store
from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.retention import DAY_MS, delete_expired
from memrelay.memory.engine.store import Store
from memrelay.memory.errors import PolicyStop, RecordNotFound, Refused, ReviewFull
from memrelay.memory.models.reviews import table as table_module
from memrelay.memory.models.reviews.proposing import propose
from memrelay.memory.operations import Context, all_operations
from tests.memory.builders import NOW, PLENTY, make_guid, make_store, perform, perform_at

POLICY = "strangers wait"
CANARY = "xyzzy-plugh"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def hold(store: Store, name: str, /, *, actor: str = "Mallory", **given: Any) -> str:
    """Propose a call as if a policy had stopped it, and return the guid of the answer."""
    operation = all_operations()[name]
    with store.transaction() as tx:
        wanted = operation.adapter.validate_json(orjson.dumps(given), strict=True)
        target = tx.records.by_guid(given["guid"]) if given.get("guid") else None
        content = given["content"]
        if target is None:
            new = new_state(make_guid(), given.get("kind", "observation"), NOW, actor)
        else:
            new = target.state
            content = f"{target.content}\n{content}" if name == "records.append" else content
        stop = PolicyStop(POLICY, "review", new._replace(content=content), target and target.state)
        context = Context(NOW, actor, PLENTY, make_guid)
        return propose(tx, stop, operation, wanted, context).guid


def decide(store: Store, verb: str, /, *guids: str, actor: str = "Ada", **given: Any) -> Any:
    with store.transaction() as tx:
        name = f"reviews.{verb}"
        answer = perform(tx, name, actor=actor, now_ms=NOW + 5, guids=list(guids), **given)
    return answer.items[0] if len(answer.items) == 1 else answer


def read_waiting(store: Store) -> list[str]:
    return [one.guid for one in perform(store, "reviews.list").items]


def test_an_approved_write_gets_the_reserved_guid_and_the_writers_name(store: Store) -> None:
    guid = hold(store, "records.create", content="tea", kind="note")
    assert perform(store, "records.list").items == ()

    decision = decide(store, "approve", guid)

    assert (decision.status, decision.decided_by) == ("approved", "Ada")
    assert decision.result["guid"] == guid
    record = perform(store, "records.get", guid=guid)
    assert (record.content, record.kind, record.source) == ("tea", "note", "Mallory")
    assert read_waiting(store) == []


def test_the_history_of_an_approved_change_has_both_names(store: Store) -> None:
    guid = perform_at(store, NOW, "records.create", content="tea").guid
    waiting = hold(store, "records.update", guid=guid, content="green tea", reason="taste")
    assert waiting != guid

    assert decide(store, "approve", waiting, reason="true").status == "approved"

    (before,) = perform(store, "records.history", guid=guid).items[1:]
    assert (before.actor, before.reason) == ("Mallory", "approved by Ada: taste: true")


def test_a_second_approval_changes_nothing_and_names_the_first(store: Store) -> None:
    guid = hold(store, "records.create", content="tea")
    decide(store, "approve", guid)
    again = decide(store, "approve", guid, actor="Bob")
    assert (again.status, again.is_repeated, again.decided_by) == ("approved", True, "Ada")
    assert again.result["guid"] == guid
    assert decide(store, "reject", guid).status == "approved"
    assert len(perform(store, "records.list").items) == 1


def test_a_writer_cannot_approve_its_own_write(store: Store) -> None:
    guid = hold(store, "records.create", content="tea", actor="Ada")
    assert decide(store, "approve", guid, actor="Ada").status == "denied"
    assert read_waiting(store) == [guid]
    # Callers without a key have no name of their own.
    local = hold(store, "records.create", content="tea", actor="http")
    assert decide(store, "approve", local, actor="http").status == "approved"


def test_a_proposal_that_was_edited_after_a_look_is_a_conflict(store: Store) -> None:
    guid = hold(store, "records.create", content="tea")
    (seen,) = perform(store, "reviews.list").items
    with store.transaction() as tx:
        perform(tx, "reviews.edit", actor="Cat", guid=guid, content="poison")

    for verb in ("approve", "reject"):
        decision = decide(store, verb, guid, versions=[seen.version])
        assert (decision.status, decision.code) == ("conflict", "version_differs")
        assert "Cat" in decision.detail
    with pytest.raises(Refused, match="one version for each"):
        decide(store, "approve", guid, versions=[seen.version, seen.version])
    (seen,) = perform(store, "reviews.list").items
    assert decide(store, "approve", guid, versions=[seen.version]).status == "approved"


def test_a_writer_cannot_edit_its_own_write(store: Store) -> None:
    guid = hold(store, "records.create", content="tea")
    with store.transaction() as tx, pytest.raises(Refused, match="you have written it"):
        perform(tx, "reviews.edit", actor="Mallory", guid=guid, content="poison")


def test_a_conflict_goes_back_to_the_reviewer_and_the_proposal_stays(store: Store) -> None:
    record = perform_at(store, NOW, "records.create", content="tea")
    given = {"guid": record.guid, "if_version": [record.version]}
    waiting = hold(store, "records.update", content="green tea", **given)
    perform_at(store, NOW + 1, "records.update", guid=record.guid, content="coffee")

    assert perform(store, "reviews.get", guid=waiting).has_changed
    decision = decide(store, "approve", waiting)

    assert (decision.status, decision.code) == ("conflict", "version_differs")
    assert read_waiting(store) == [waiting]
    assert perform(store, "records.get", guid=record.guid).content == "coffee"


def test_a_conflict_does_not_hold_up_other_proposals(store: Store) -> None:
    gone = perform_at(store, NOW, "records.create", content="tea").guid
    waiting = hold(store, "records.append", guid=gone, content="green")
    perform_at(store, NOW + 1, "records.delete", guid=gone)
    guid = hold(store, "records.create", content="coffee")

    answer = decide(store, "approve", waiting, guid, "unknown")

    assert [one.status for one in answer.items] == ["conflict", "approved", "missing"]
    assert read_waiting(store) == [waiting]


def test_a_rejection_deletes_the_text_and_keeps_the_decision(store: Store) -> None:
    guid = hold(store, "records.create", content=CANARY)
    assert decide(store, "reject", guid, reason="spam").status == "rejected"

    (kept,) = perform(store, "reviews.list", status="rejected").items
    assert (kept.guid, kept.decided_by, kept.reason, kept.candidate) == (guid, "Ada", "spam", None)
    with pytest.raises(RecordNotFound):
        perform(store, "records.get", guid=guid)
    assert find_in_table(store, CANARY) == 0


def test_an_edit_changes_what_is_written(store: Store) -> None:
    guid = hold(store, "records.create", content="tea is bad")
    perform_at(store, NOW, "reviews.edit", guid=guid, content="tea is good")
    assert perform(store, "reviews.list").items[0].edited_by == "tester"

    decide(store, "approve", guid)
    assert perform(store, "records.get", guid=guid).content == "tea is good"

    note = perform_at(store, NOW, "records.create", content="a").guid
    waiting = hold(store, "records.append", guid=note, content="b")
    edited = perform_at(store, NOW, "reviews.edit", guid=waiting, content="c")
    assert edited.candidate.content == "a\nc"
    decide(store, "approve", waiting)
    (before,) = perform(store, "records.history", guid=note).items[1:]
    assert before.reason == "edited by tester, approved by Ada"
    with pytest.raises(Refused, match="approved by Ada"):
        perform_at(store, NOW, "reviews.edit", guid=waiting, content="d")


def test_a_review_shows_the_changes_and_similar_records(store: Store) -> None:
    guid = perform_at(store, NOW, "records.create", content="Ada drinks green tea").guid
    perform_at(store, NOW, "records.create", content="Ada drinks tea at noon")
    waiting = hold(store, "records.update", guid=guid, content="Ada drinks black tea")

    review = perform(store, "reviews.get", guid=waiting)

    assert [(one.kind, one.text) for one in review.diff if one.kind != "same"] == [
        ("deleted", "green"),
        ("added", "black"),
    ]
    assert [one.content for one in review.near] == ["Ada drinks tea at noon"]
    assert (review.proposal.target, review.proposal.policy) == (guid, POLICY)
    assert not review.has_changed


def test_a_policy_or_a_source_selects_the_proposals(store: Store) -> None:
    guids = [hold(store, "records.create", content=str(number)) for number in range(3)]
    other = hold(store, "records.create", content="3", actor="Bob")
    first = decide(store, "approve", source="Mallory", limit=2)
    rest = decide(store, "approve", source="Mallory", cursor=first.next_cursor)
    assert [*(one.guid for one in first.items), rest.guid] == guids
    assert decide(store, "reject", policy=POLICY).guid == other
    with pytest.raises(Refused, match="name the proposals"):
        decide(store, "approve")


def test_a_full_store_refuses_more(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "MOST_WAITING", 2)
    for content in ("a", "b"):
        hold(store, "records.create", content=content)
    with pytest.raises(ReviewFull) as refused:
        hold(store, "records.create", content="c")
    assert refused.value.code == "review_full"
    decide(store, "reject", policy=POLICY)
    hold(store, "records.create", content="c")


def test_what_nobody_decides_ends_after_its_days(store: Store) -> None:
    hold(store, "records.create", content="tea")
    end_ms = NOW + 30 * DAY_MS
    assert delete_expired(store, end_ms - 1, 90).next_ms == end_ms
    assert len(read_waiting(store)) == 1
    assert delete_expired(store, end_ms, 90).gone == 1
    assert read_waiting(store) == []


def test_an_erasure_deletes_the_proposals_about_a_record_or_a_text(store: Store) -> None:
    guid = perform_at(store, NOW, "records.create", content="tea").guid
    hold(store, "records.append", guid=guid, content="green")
    hold(store, "records.create", content=f"says {CANARY}")
    kept = hold(store, "records.create", content="coffee")
    with store.transaction() as tx:
        perform(tx, "records.erase", guids=[guid])
        perform(tx, "records.erase", text=CANARY)
    assert read_waiting(store) == [kept]


def test_a_redacted_value_is_not_in_the_input_that_waits(store: Store) -> None:
    with store.transaction() as tx:
        tx.records.findings[CANARY] = "[secret]"
    guid = hold(store, "records.create", content=f"key {CANARY}", data={"a": [CANARY]})
    assert find_in_table(store, CANARY, "input") == 0
    assert perform(store, "reviews.get", guid=guid).input["data"] == {"a": ["[secret]"]}


def test_an_internal_value_is_not_shown(store: Store) -> None:
    given = {"agent": "a1", "store": "a1", "key": "k", "value": CANARY, "in_context": False}
    operation = all_operations()["items.put"]
    with store.transaction() as tx:
        wanted = operation.adapter.validate_json(orjson.dumps(given), strict=True)
        new = new_state(make_guid(), "store.item", NOW, "a1")._replace(content=CANARY)
        stop = PolicyStop(POLICY, "review", new)
        guid = propose(tx, stop, operation, wanted, Context(NOW, "a1", PLENTY, make_guid)).guid
    shown = perform(store, "reviews.get", guid=guid)
    assert (shown.proposal.candidate.is_hidden, CANARY in str(shown)) == (True, False)
    with pytest.raises(Refused, match="cannot be edited"):
        perform_at(store, NOW, "reviews.edit", guid=guid, content="x")


def find_in_table(store: Store, text: str, column: str = "input || candidate") -> int:
    sql = f"SELECT count(*) FROM proposals WHERE instr({column}, ?)"
    return int(store.connection.execute(sql, (text,)).get)


def test_forgetting_a_user_deletes_what_quotes_them(store: Store) -> None:
    user = perform_at(store, NOW, "users.identify", channel="telegram", channel_id="7712345678")
    hold(store, "records.create", content="my id is 7712345678, call me")
    kept = hold(store, "records.create", content="tea")
    perform_at(store, NOW, "users.forget", id=user.user.canonical_id, reason="asked for")
    assert read_waiting(store) == [kept]


def test_a_batch_that_another_policy_stops_too_late_does_not_hold_up_others(
    tmp_path: Path,
) -> None:
    with open_store(tmp_path / "a.db", actor="Mallory") as writer:
        wait, refuse = (
            {"name": action, "match": {"filter": {"content": {"contains": text}}}, "action": action}
            for action, text in (("review", "hold"), ("refuse", "bad"))
        )
        writer.policies.set(wait)
        items = [
            {"scope": "s", "key": key, "data": {"value": {"a": key}}, "content": f"hold {key}"}
            for key in ("good", "bad")
        ]
        bad = [writer.records.put(items), writer.records.put(items)]
        good = writer.records.create("hold fine")
        writer.policies.set(refuse)
    with open_store(tmp_path / "a.db", actor="Ada") as reviewer:
        decisions = reviewer.reviews.approve(policy="review").items
        assert [(one.guid, one.status, one.code) for one in decisions] == [
            *((one.guid, "conflict", "refused_by_policy") for one in bad),
            (good.guid, "approved", None),
        ]
        assert [one.content for one in reviewer.records.list().items] == ["hold fine"]


def test_the_sender_of_a_proposal_is_looked_at(store: Store) -> None:
    find = {"pattern": CANARY}
    policy = {"name": "no canary", "match": {"find": find}, "action": "redact"}
    perform_at(store, NOW, "policies.set", policy=policy)
    operation = all_operations()["records.create"]
    with store.transaction() as tx:
        wanted = operation.adapter.validate_python({"content": "tea"})
        new = new_state(make_guid(), "observation", NOW, "bot")._replace(content="tea")
        context = Context(NOW, "bot", PLENTY, make_guid, origin=("bot", CANARY, "", "", "", "", ""))
        propose(tx, PolicyStop(POLICY, "review", new), operation, wanted, context)

    assert find_in_table(store, "[pattern:", "origin") == 1
    assert find_in_table(store, CANARY, "origin") == 0
