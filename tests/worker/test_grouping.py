"""Pipelines that share stores form one group, even if only a third one connects them."""

from random import Random

from memrelay.pipelines.check import check
from memrelay.pipelines.plan import Plan
from memrelay.worker.session import group_by_store
from tests.support.bundles import make_bundle, make_memory


def make_plan(uid: str, *stores: str) -> Plan:
    bundle = check(
        make_bundle(
            uid,
            *[
                make_memory(
                    "read", senders="*", memory_id=f"shared/{store}", alias=f"read_{store}_"
                )
                for store in stores
            ],
        )
    ).bundle
    assert bundle is not None
    return Plan(bundle)


def uids(groups: list[list[Plan]]) -> list[list[str]]:
    return [[plan.uid for plan in members] for members in groups]


def test_a_pipeline_joins_the_groups_of_its_stores() -> None:
    one, two, alone, both = (
        make_plan("one", "a"),
        make_plan("two", "b"),
        make_plan("alone", "c"),
        make_plan("both", "b", "a"),
    )

    assert uids(group_by_store([one, two, alone, both])) == [["one", "two", "both"], ["alone"]]
    assert uids(group_by_store([both, alone, two, one])) == [["both", "two", "one"], ["alone"]]


def test_groups_share_no_store_and_are_connected() -> None:
    chance = Random(1)
    for _ in range(30):
        plans = [
            make_plan(f"p{number}", *chance.sample("abcdefgh", chance.randint(1, 3)))
            for number in range(8)
        ]

        groups = group_by_store(chance.sample(plans, len(plans)))

        assert sorted(plan.uid for members in groups for plan in members) == [
            plan.uid for plan in plans
        ]
        stores = [{store for plan in members for store in plan.stores} for members in groups]
        assert sum(map(len, stores)) == len(set().union(*stores))
        for members, theirs in zip(groups, stores, strict=True):
            reached = set(members[0].stores)
            for _ in members:
                reached |= {
                    store for plan in members if reached & set(plan.stores) for store in plan.stores
                }
            assert reached == theirs
