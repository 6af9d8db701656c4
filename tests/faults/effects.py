"""Effects of messages without ids: how many were lost, and that none applied twice."""

import re
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

from tests.support.host import Host
from tests.support.plain_load import PlainLoad, Span
from tests.support.waiting import wait_for


class Fault(NamedTuple):
    """When a fault began, and when the web server used the new primary (time.monotonic())."""

    began_s: float
    known_s: float

    def explains(self, span: Span) -> bool:
        """Return whether a message may be lost: its server was replaced before replicas had it."""
        return span.accepted_s > self.began_s - 1 and span.sent_s <= self.known_s


def check_effects(host: Host, *loads: tuple[str, PlainLoad]) -> dict[int, Span]:
    """Wait until nothing waits. Check that nothing applied twice, in another order, or became a
    dead letter. `loads` are (uid, load). Return the lost messages.
    """

    def is_settled() -> bool:
        answer = host.ask("GET", "/status")
        return answer.status == 200 and all(
            one["lag"] == one["waiting"] == 0 for one in answer.json["pipelines"]
        )

    lost = dict[int, Span]()
    wait_for(is_settled, "nothing waits")
    for uid, load in loads:
        texts = " ".join(host.contents(uid))
        numbers = [int(number) for number in re.findall(r"<(\d+)>", texts)]
        applied = Counter(numbers)

        assert [number for number, times in applied.items() if times > 1] == []
        assert all(before < after for before, after in pairwise(numbers))
        assert host.ask("GET", f"/v1/dead-letters?pipeline={uid}").json["items"] == []
        lost |= {number: span for number, span in load.accepted.items() if number not in applied}
    assert all(process.lives for process in host.processes)
    return lost
