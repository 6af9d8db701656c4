"""Whose keys are of other types: somebody has put another value at one, and the server refuses
every command for it."""

from collections.abc import Container, Sequence

import structlog

from memrelay.bus.client.reconnecting import ReconnectingConnection
from memrelay.bus.errors import BusRefused
from memrelay.bus.key_types import SHARED, WrongType, needed_keys, wrong_type_keys
from memrelay.pipelines.plan import Plan

log = structlog.stdlib.get_logger(__name__)


class UsableKeys:
    """Leaves such pipelines out, so that they do not cost the others their session. It asks only
    where one was met."""

    def __init__(self) -> None:
        """Nothing is suspected."""
        self._suspicious = False
        self._told: set[WrongType] = set()

    def note(self, error: BaseException) -> None:
        """A session ended for this reason."""
        self._suspicious |= isinstance(error, BusRefused) and error.code == "WRONGTYPE"

    async def look(self, control: ReconnectingConnection) -> None:
        """Tells of the keys that all pipelines share, once. Raises BusUnavailable and
        BusRefused."""
        if self._suspicious:
            for odd in self._news(await wrong_type_keys(control, SHARED), SHARED):
                log.error("nothing_can_be_served", reason=str(odd), remedy=odd.remedy)

    async def among(self, control: ReconnectingConnection, plans: Sequence[Plan]) -> Sequence[Plan]:
        """Those that can be served; why not of the others, once. Raises BusUnavailable and
        BusRefused."""
        if not self._suspicious:
            return plans
        wanted = {key: kind for plan in plans for key, kind in needed_keys(plan.uid).items()}
        uid_of = {key: plan.uid for plan in plans for key in needed_keys(plan.uid)}
        found = await wrong_type_keys(control, wanted)
        for odd in self._news(found, wanted):
            log.error(
                "pipeline_not_served",
                pipeline=uid_of[odd.key],
                reason=str(odd),
                remedy=odd.remedy,
            )
        unusable, self._suspicious = {uid_of[odd.key] for odd in found}, bool(found)
        return [plan for plan in plans if plan.uid not in unusable]

    def _news(self, found: Sequence[WrongType], looked_at: Container[str]) -> list[WrongType]:
        """Those that were not told yet. What is well again is told anew when it is met again."""
        news = [odd for odd in found if odd not in self._told]
        self._told = {odd for odd in self._told if odd.key not in looked_at}.union(found)
        return news
