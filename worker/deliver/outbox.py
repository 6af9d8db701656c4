"""What leaves for the bus: results, live copies, reports, acknowledgement and deletion of a batch,
together and fenced."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import groupby
from typing import Any

from memrelay.bus.client.echo_filter import EchoFilter
from memrelay.bus.client.resp import CRLF, PUBLISH, SwarmEncoder, head, pack
from memrelay.bus.keys import input_key
from memrelay.bus.lease.fencing import FencedWriter
from memrelay.worker.deliver.public_fanout import PublicFanout
from memrelay.worker.run.inputs import HEARD
from memrelay.worker.run.outcome import Outcome, publish

MOST_BYTES = (
    256 << 10
)  # of one parcel: a batch that says more leaves in several, each with its own acknowledgements.
# Four buffers of twice that size are filled for each, and used again while they are small
# (`footprint.LARGE_BYTES`).

Report = (
    dict[str, Any] | None
)  # what the caller is told who awaits the end of a cascade; None while it goes on


class Outbox:
    """Sends outcomes. Sent again after a lost connection they say the same, under the same ids."""

    def __init__(
        self, writer: FencedWriter, echo: EchoFilter, log_length: int, fan_out: PublicFanout
    ) -> None:
        """Everything goes through one writer, so it arrives in order; `echo` is told what the
        listener will hear of it.

        `log_length` is how many entries a swarm's log keeps, about; `fan_out` has what is to lead
        the first MULTI.
        """
        self.fan_out = fan_out
        self._writer, self._echo = writer, echo
        self._pen_of = cache(lambda uid: SwarmEncoder(uid, log_length))

    def send(
        self,
        outcomes: Sequence[Outcome],
        reports: Sequence[Report],
        beside: Sequence[bytes] = (),
        before: Iterable[bytes] = (),
    ) -> list[asyncio.Future[Any]]:
        """Sends; returns what to await: till then the server may not have it.

        `reports` has one for each outcome. The commands `before` lead the first MULTI, and those
        `beside` are in the last.
        """
        sent, parcel = [], _Parcel(self._pen_of)
        parcel.logged += before
        for outcome, report in zip(outcomes, reports, strict=True):
            parcel.add(outcome, report)
            if parcel.size > MOST_BYTES:
                sent.append(self._send(parcel))
                parcel = _Parcel(self._pen_of)
        parcel.reports += beside
        return [*sent, self._send(parcel)] if parcel.entries or parcel.logged else sent

    def tell(self, channel: str, payload: bytes) -> None:
        """Publishes, if this worker is not fenced; where it does not arrive, who waits for it has
        lost the bus too."""
        self._writer.send([pack("PUBLISH", channel, payload)], 1)

    def _send(self, parcel: "_Parcel") -> asyncio.Future[Any]:
        self._echo.expect(parcel.live)
        return self._writer.send(*parcel.close())


class _Parcel:
    """What leaves in one MULTI: logs first, then live copies, reports, acknowledgements."""

    def __init__(self, pen_of: Callable[[str], SwarmEncoder]) -> None:
        self._pen_of = pen_of
        self.logged: list[bytes] = []
        self.live: list[bytes] = []  # what follows each PUBLISH
        self.reports: list[bytes] = []
        self.entries: defaultdict[str, list[bytes]] = defaultdict(list)
        self.size = 0  # bytes of the envelopes, a half of all

    def add(self, outcome: Outcome, report: Report) -> None:
        """What an input led to, who awaits it, and the end of its entry."""
        ident = outcome.id.encode()
        by = outcome.said_by.encode() if outcome.said_by else ident
        logged, live = self._pen_of(outcome.uid).write(by, outcome.said)
        if outcome.heard:
            logged, live = logged[outcome.heard > HEARD :], live[outcome.heard >= HEARD :]
        self.logged += logged
        self.live += live
        self.size += outcome.size
        if report is not None:
            self.reports.append(publish(outcome.reply, report))
        if not outcome.origin:
            self.entries[outcome.uid].append(outcome.entry.encode() if outcome.entry else ident)

    def close(self) -> tuple[list[bytes], int]:
        """(the commands in pieces, how many they are). Who sends joins them, once: a batch's are
        half a megabyte."""
        pieces = [PUBLISH] * (2 * len(self.live))
        pieces[1::2] = self.live
        pieces += self.reports
        for uid, idents in self.entries.items():
            pieces += [head(2 + len(idents), "XDEL", input_key(uid)), _bulks(idents)]
        count = len(self.logged) + len(self.live) + len(self.reports) + len(self.entries)
        return self.logged + pieces, count


def _bulks(words: Iterable[bytes]) -> bytes:
    """Words of a command in any order: those of one length together, since to format a length costs
    more than to join."""
    packed = []
    for size, alike in groupby(sorted(words, key=len), len):
        before = b"$%d\r\n" % size
        packed.append(before + (CRLF + before).join(alike) + CRLF)
    return b"".join(packed)
