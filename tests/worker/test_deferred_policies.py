"""Policies see the plain new records of a batch together, and one by one only after a match."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from memrelay.memory.engine.stores import OpenStores
from memrelay.memory.models.policies.feature import Policies
from memrelay.memory.models.policies.table import PolicyTable
from memrelay.memory.policy_rules import check_policy
from tests.worker.test_admission import STORE, count_commits, list_contents, make_message
from tests.worker.test_batch import make_batch

NOW = 1_700_000_000_000
KEY = "AKIA" + "IOSFODNN7EXAMPLE"
TEXTS = ("/write tea", "/write the moon", f"/write my {KEY}", "/note a note", "/write card 4012")
POLICIES = (
    {"name": "no secrets", "match": {"find": "secrets"}, "action": "redact"},
    {"name": "no cards", "match": {"find": {"pattern": "card [0-9]+"}}, "action": "refuse"},
    {"name": "tagged", "match": {"filter": {"kind": {"eq": "entry"}}}, "action": {"tag": "e"}},
)


def open_stores(root: Path, *policies: Any) -> OpenStores:
    stores = OpenStores(root, 10)
    with stores.get(STORE).transaction() as tx:
        # Equal keys make equal digests.
        tx.connection.execute("INSERT INTO policy_keys VALUES (1, ?)", (b"k" * 32,))
        for policy in policies:
            tx.table(PolicyTable).put(check_policy(policy), NOW)
    stores.get(STORE).refresh_features()
    return stores


def run(stores: OpenStores, texts: list[str], first: int = 0) -> list[bytes]:
    entries = [make_message(text, first + at) for at, text in enumerate(texts)]
    outcomes = make_batch(*entries).run(stores).outcomes
    return [data for outcome in outcomes for _, data in outcome.messages]


@pytest.mark.parametrize("seed", range(5))
def test_a_batch_has_the_effects_of_policies_that_see_each_record(
    tmp_path: Path, seed: int
) -> None:
    random = Random(seed)
    together = open_stores(tmp_path / "together", *POLICIES)
    one_by_one = open_stores(tmp_path / "one", *POLICIES)
    one_by_one.get(STORE).table(Policies)._careful = 1000

    for number in range(6):
        texts = random.choices(TEXTS, weights=(9, 9, 1, 2, 1), k=random.randint(1, 12))
        answers = [run(stores, texts, 100 * number) for stores in (together, one_by_one)]
        assert answers[0] == answers[1]

    assert list_contents(together) == list_contents(one_by_one)
    assert KEY not in "".join(list_contents(together))
    together.close_all(), one_by_one.close_all()


def test_a_batch_with_a_match_is_one_commit(tmp_path: Path) -> None:
    stores = open_stores(tmp_path, POLICIES[0])
    before = count_commits(stores)

    run(stores, ["/write one", f"/write {KEY}", "/write two"])

    assert count_commits(stores) == before + 1
    assert [one[:5] for one in list_contents(stores)] == ["one", "[aws_", "two"]
    stores.close_all()


def test_a_filter_on_the_content_sees_each_record(tmp_path: Path) -> None:
    match = {"filter": {"content": {"contains": "moon"}}}
    stores = open_stores(tmp_path, {"name": "no moon", "match": match, "action": "drop"})

    run(stores, ["/write tea", "/write the moon", "/write sun"])

    assert list_contents(stores) == ["tea", "sun"]
    stores.close_all()
