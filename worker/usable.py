"""Whose input is no stream: somebody has put another value at its key, and the server refuses every command for it."""
import logging
from collections.abc import Sequence

from bus.connection import Connection
from bus.errors import BusRefused
from bus.wire import input_key
from pipelines.plan import Plan

log = logging.getLogger(__name__)
USABLE = b"none", b"stream"   # an input that is not there is made


class Usable:
    """Leaves such pipelines out, so that they do not cost the others their session. It asks only where one was met."""

    def __init__(self) -> None:
        """Nothing is suspected."""
        self._suspicious = False
        self._told: set[str] = set()

    def note(self, error: BaseException) -> None:
        """A session ended for this reason."""
        self._suspicious |= isinstance(error, BusRefused) and error.code == "WRONGTYPE"

    async def among(self, control: Connection, plans: Sequence[Plan]) -> Sequence[Plan]:
        """Those that can be served; why not of the others, once. Raises BusUnavailable and BusRefused."""
        if not self._suspicious:
            return plans
        kinds = {plan.uid: await control.call("TYPE", input_key(plan.uid)) for plan in plans}
        unusable = {uid for uid, kind in kinds.items() if kind not in USABLE}
        for uid in sorted(unusable - self._told):
            log.error("pipeline_not_served", extra={
                "pipeline": uid, "reason": f"{input_key(uid)} is a {kinds[uid].decode()}, and should be a stream",
                "remedy": "find out what has written there; when it is deleted (DEL), the pipeline is served again"})
        self._told, self._suspicious = unusable, bool(unusable)
        return [plan for plan in plans if plan.uid not in unusable]
