"""Which features the write path of each store has, by the bundles of its pipelines."""

from collections.abc import Sequence

from memrelay.memory.engine.features import FEED
from memrelay.pipelines.plan import Plan


def find_features(plans: Sequence[Plan]) -> dict[str, frozenset[str]]:
    """Return the features of each store of these pipelines, which may share some."""
    feeds = {name for plan in plans for name in plan.feeds}
    return {
        name: frozenset({FEED} if name in feeds else ())
        for plan in plans
        for name in plan.all_stores
    }
