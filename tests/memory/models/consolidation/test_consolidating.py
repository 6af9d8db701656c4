"""What consolidation proposes for review, and what a decision makes of it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.retention import DAY_MS, delete_expired
from memrelay.memory.engine.store import Store
from memrelay.memory.models.consolidation.consolidating import Budget, Progress, Rules, run_slice
from memrelay.memory.models.policies.table import PolicyTable
from memrelay.memory.models.reviews import table as review_table
from memrelay.memory.operations import Context
from memrelay.memory.policy_rules import check_policy
from tests.memory.builders import NOW, PLENTY, make_guid, make_store, perform, perform_at

RULES = Rules("tidy", "", ("duplicates", "contradictions", "stale"), 365, 0.95)
OLD, NEW = "The staging database runs on Postgres 14", "The staging database runs on Postgres 16"
TWICE = ("The API key expires after 30 days", "An API key expires after 30 days")
ALL = Budget(1000, 1000)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = make_store(tmp_path)
    yield store
    store.close()


def keep(store: Store, text: str, at_ms: int = NOW, /, **given: Any) -> Any:
    """Write an entry without a comparison."""
    given = {"memory": "facts", "mode": "create"} | given
    return perform_at(store, at_ms, "entries.create", content=text, **given)


def consolidate(
    store: Store, now_ms: int = NOW + 1000, *, budget: Budget = ALL, rules: Rules = RULES
) -> dict[str, int]:
    """Run all slices of one run and return the proposals by sort."""
    progress, goes_on = Progress(), True
    while goes_on:
        with store.transaction() as tx:
            tx.records.set_actor(now_ms, "tidy")
            context = Context(now_ms, "tidy", PLENTY, make_guid)
            goes_on = run_slice(tx, rules, progress, budget, context)
    return progress.proposed


def read_waiting(store: Store) -> list[Any]:
    reviews = perform(store, "reviews.list").items
    return [perform(store, "reviews.get", guid=one.guid) for one in reviews]


def decide(store: Store, verb: str, now_ms: int = NOW + 2000) -> list[str]:
    """Decide on all that waits and return the outcomes."""
    guids = [one.guid for one in perform(store, "reviews.list").items]
    with store.transaction() as tx:
        answer = perform(tx, f"reviews.{verb}", actor="Ada", now_ms=now_ms, guids=guids)
    return [one.status for one in answer.items]


def read_texts(store: Store) -> list[str]:
    return [one.content for one in perform(store, "records.list", kind="entry").items]


def test_a_near_duplicate_is_merged_when_it_is_approved(store: Store) -> None:
    first = keep(store, TWICE[0], tags=["api"], metadata={"a": 1, "b": 1})
    keep(store, TWICE[1], NOW + 1, tags=["keys"], metadata={"b": 2, "c": 2})
    keep(store, "The session expires after 30 minutes", NOW + 2)

    assert consolidate(store) == {"duplicates": 1}
    assert len(read_texts(store)) == 3
    (review,) = read_waiting(store)
    assert (review.proposal.candidate.content, review.other.content) == TWICE
    assert review.input["reason"].startswith("near duplicate: the same but for articles")
    assert decide(store, "approve") == ["approved"]

    kept = perform(store, "entries.get", id=first.id)
    assert (kept.tags, kept.metadata) == (("api", "keys"), {"a": 1, "b": 1, "c": 2})
    assert kept.confirmations == 1
    assert len(read_texts(store)) == 2
    with store.transaction() as tx:
        again = perform(tx, "reviews.approve", actor="Bob", guids=[review.proposal.guid])
    assert again.items[0].is_repeated and len(read_texts(store)) == 2
    assert consolidate(store, NOW + 3000) == {}


def test_the_newer_of_two_contradictions_stays(store: Store) -> None:
    keep(store, OLD, tags=["outdated"])
    keep(store, NEW, NOW + 1)

    assert consolidate(store) == {"contradictions": 1}
    (review,) = read_waiting(store)
    assert (review.proposal.candidate.content, review.other.content) == (NEW, OLD)
    assert review.input["is_outdated"] and not review.has_changed
    assert decide(store, "approve") == ["approved"]

    assert read_texts(store) == [NEW]
    guid = review.other.guid
    states = perform(store, "records.history", guid=guid).items
    assert states[1].reason == "approved by Ada: contradicts a newer entry"
    assert perform(store, "records.list", kind="entry").items[0].tags == ()


def test_values_of_one_key_contradict_each_other(store: Store) -> None:
    keep(store, "Ada drinks tea at breakfast", metadata={"key": "drink", "value": "tea"})
    keep(store, "Ada drinks cocoa at breakfast", NOW + 1, metadata={"key": "drink", "value": "c"})
    keep(store, "Ada drinks milk at breakfast", NOW + 2, metadata={"key": "milk", "value": "m"})

    assert consolidate(store) == {"contradictions": 1}
    assert read_waiting(store)[0].input["reason"] == "the same key has another value"


def test_facts_of_other_people_projects_owners_and_memories_are_not_compared(store: Store) -> None:
    keep(store, OLD, metadata={"user": "ada", "project": "p"})
    keep(store, NEW, NOW + 1, metadata={"user": "bob", "project": "p"})
    keep(store, NEW, NOW + 2, metadata={"user": "ada", "project": "q"})
    keep(store, NEW, NOW + 3)
    keep(store, NEW, NOW + 4, memory="other", metadata={"user": "ada", "project": "p"})

    assert consolidate(store) == {}
    keep(store, NEW, NOW + 5, metadata={"user": "ada", "project": "p"})
    assert consolidate(store) == {"contradictions": 1}


def test_stale_entries_are_those_past_their_end_or_not_confirmed_for_long(store: Store) -> None:
    keep(store, "The sprint has the goal search", valid_to="2023-11-01T00:00:00Z")
    keep(store, "Lena studies medicine", NOW - 400 * DAY_MS)
    keep(store, "Bob plays chess", NOW - 400 * DAY_MS)
    keep(store, "Bob plays chess", NOW - 3 * DAY_MS, mode="skip")
    keep(store, "Carol sings", NOW)

    assert consolidate(store) == {"stale": 2}
    reasons = {one.proposal.candidate.content: one.input["reason"] for one in read_waiting(store)}
    assert reasons == {
        "The sprint has the goal search": "stale: not valid since 2023-11-01",
        "Lena studies medicine": "stale: not written or confirmed since 2022-10-10",
    }
    assert decide(store, "approve") == ["approved", "approved"]
    assert sorted(read_texts(store)) == ["Bob plays chess", "Carol sings"]


@pytest.mark.parametrize("changed", [OLD, NEW])
def test_an_entry_that_changed_in_between_refuses_the_proposal(store: Store, changed: str) -> None:
    entries = {text: keep(store, text, NOW + n) for n, text in enumerate((OLD, NEW))}
    consolidate(store)
    given = {"id": entries[changed].id, "content": f"{changed}.4"}
    perform_at(store, NOW + 1500, "entries.update", **given)

    (review,) = read_waiting(store)
    assert review.has_changed
    assert decide(store, "approve") == ["conflict"]
    assert len(read_texts(store)) == 2


def test_a_refused_pair_stays_refused_until_one_text_changes(store: Store) -> None:
    keep(store, OLD)
    new = keep(store, NEW, NOW + 1)
    consolidate(store)
    assert consolidate(store) == {}, "it waits"
    assert decide(store, "reject") == ["rejected"]
    later = NOW + 100 * DAY_MS
    assert delete_expired(store, later, 1000).gone == 1
    assert perform(store, "reviews.list", status="rejected").items == ()

    perform_at(store, later, "entries.update", id=new.id, tags=["seen"])
    assert consolidate(store, later + 1) == {}
    perform_at(store, later + 2, "entries.update", id=new.id, content=NEW.replace("16", "17"))
    assert consolidate(store, later + 3) == {"contradictions": 1}


def test_a_waiting_proposal_is_renewed_when_the_entry_that_stays_gets_new_tags(
    store: Store,
) -> None:
    """Three duplicates make two proposals, and the first approval changes the entry that stays."""
    for number, text in enumerate((TWICE[0], TWICE[1], TWICE[1].replace("An", "The"))):
        keep(store, text, NOW + number, tags=[f"t{number}"])
    assert consolidate(store) == {"duplicates": 2}

    assert decide(store, "approve") == ["approved", "conflict"]
    assert consolidate(store, NOW + 3000) == {}
    assert decide(store, "approve", NOW + 4000) == ["approved"]
    assert len(read_texts(store)) == 1


def test_a_run_is_bounded_and_the_next_one_goes_on(store: Store) -> None:
    for number in range(6):
        keep(store, f"Room {number}0 has the phone number 100{number}", NOW + number)
        keep(store, f"The room {number}0 has the phone number 100{number}", NOW + number)

    runs = [consolidate(store, budget=Budget(2, 1000)) for _ in range(4)]
    assert runs == [{"duplicates": 2}] * 3 + [{}]
    other = Rules("other", "", ("stale",), 1, 0.95)
    assert consolidate(store, NOW + 3 * DAY_MS, budget=Budget(5, 1000), rules=other) == {"stale": 5}


def test_entries_are_compared_once_and_again_only_after_a_change(store: Store) -> None:
    entries = [keep(store, f"Fact number {n} is of its own kind {n * 7}") for n in range(50)]

    def compare() -> list[int]:
        progress, slices, goes_on = Progress(), [], True
        while goes_on:
            with store.transaction() as tx:
                context = Context(NOW, "tidy", PLENTY, make_guid)
                goes_on = run_slice(tx, RULES, progress, ALL, context)
            slices.append(progress.compared)
        return slices

    assert compare() == [10, 20, 30, 40, 50]
    assert compare() == [0]
    perform_at(store, NOW + 5, "entries.update", id=entries[3].id, content="Tea is green")
    assert compare() == [1]


def test_policies_apply_to_an_approved_proposal(store: Store) -> None:
    keep(store, TWICE[0])
    keep(store, TWICE[1], tags=["secret"])
    consolidate(store)
    refusal = {"name": "no", "match": {"find": {"pattern": "secret"}}, "action": "refuse"}
    with store.transaction() as tx:
        tx.table(PolicyTable).put(check_policy(refusal), NOW)

    with store.transaction() as tx:
        (waiting,) = perform(tx, "reviews.list").items
        decision = perform(tx, "reviews.approve", actor="Ada", guids=[waiting.guid]).items[0]
    assert (decision.status, decision.code) == ("conflict", "refused_by_policy")
    assert len(read_texts(store)) == 2


def test_a_full_queue_ends_the_run(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_table, "MOST_WAITING", 1)
    keep(store, OLD)
    keep(store, NEW, NOW + 1)
    keep(store, TWICE[0])
    keep(store, TWICE[1])

    assert sum(consolidate(store).values()) == 1
    decide(store, "reject")
    assert sum(consolidate(store).values()) == 1


def test_expired_entries_are_left_out(store: Store) -> None:
    keep(store, OLD)
    keep(store, NEW, NOW + 1)
    guid = perform(store, "records.list", kind="entry").items[1].guid
    perform_at(store, NOW + 2, "records.update", guid=guid, expires_at=str(NOW + 500))

    assert consolidate(store) == {}
