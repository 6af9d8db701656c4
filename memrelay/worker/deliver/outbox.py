"""Sends a batch to the bus: logs, live copies, reports and acknowledgements in fenced MULTIs."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import groupby
from operator import attrgetter
from typing import Any

import orjson

from memrelay.bus.client.echo_filter import EchoFilter
from memrelay.bus.client.resp import CRLF, PUBLISH, SwarmEncoder, head, pack
from memrelay.bus.keys import changed_channel, input_key
from memrelay.bus.lease.fencing import FencedWriter
from memrelay.bus.streams.log_size import LogTrimmer
from memrelay.pipelines.plan import Plan
from memrelay.worker.deliver.public_fanout import PublicFanout
from memrelay.worker.run.inputs import Published
from memrelay.worker.run.outcome import Outcome

# Bytes of one MULTI. A larger batch leaves in several, each with its own acknowledgements. Each
# MULTI fills four buffers of twice that size, which are reused while they are small
# (`footprint.LARGE_BYTES`).
MAX_BYTES = 256 << 10
# The report to the client that waits for the end of a cascade; None while the cascade goes on.
Report = dict[str, Any] | None
CHANNEL = Published.CHANNEL
_uid = attrgetter("uid")


class Outbox:
    """Sends outcomes. After a lost connection they are sent again, under the same ids.

    Everything goes through one writer, so it arrives in order. `echo` learns what the subscriber
    will receive from it. Logs of swarms keep about `log_length` entries, and `log_trimmer` bounds
    their bytes.
    """

    def __init__(
        self,
        writer: FencedWriter,
        echo: EchoFilter,
        log_length: int,
        public_fanout: PublicFanout,
        log_trimmer: LogTrimmer,
    ) -> None:
        self.public_fanout, self._log_trimmer = public_fanout, log_trimmer
        self._writer, self._echo = writer, echo
        self._encoder_of = cache(lambda uid: SwarmEncoder(uid, log_length))

    def send(
        self,
        outcomes: Sequence[Outcome],
        reports: Sequence[Report],
        marks: Sequence[bytes] = (),
        appends: Iterable[bytes] = (),
    ) -> list[asyncio.Future[Any]]:
        """Send outcomes, and return the futures of the server's replies.

        `reports` has one item per outcome. The commands `appends` lead the first MULTI; `marks`
        are in the last one.
        """
        sent, size, parcel = [], 0, _Parcel(self._encoder_of)
        parcel.logged += appends
        for outcome, report in zip(outcomes, reports, strict=True):
            parcel.add(outcome, report)
            if parcel.size > MAX_BYTES:
                sent.append(self._send(parcel))
                size += parcel.size
                parcel = _Parcel(self._encoder_of)
        parcel.reports += marks
        # A repeat that waited may have only a report.
        if parcel.entries or parcel.logged or parcel.reports:
            sent.append(self._send(parcel))
        for uid in set(map(_uid, outcomes)):
            self._log_trimmer.note(self._encoder_of(uid).logs, size + parcel.size)
        return sent

    def publish(self, channel: str, payload: bytes) -> None:
        """Publish on a channel, unless the worker is fenced. Failures are not reported."""
        self._writer.send([pack("PUBLISH", channel, payload)], 1)

    def _send(self, parcel: "_Parcel") -> asyncio.Future[Any]:
        self._echo.expect(parcel.live)
        return self._writer.send(*parcel.pack())


class _Parcel:
    """The contents of one MULTI: logs first, then live copies, reports and acknowledgements."""

    def __init__(self, encoder_of: Callable[[str], SwarmEncoder]) -> None:
        self._encoder_of = encoder_of
        self.logged: list[bytes] = []
        self.live: list[bytes] = []  # the words after each PUBLISH
        self.reports: list[bytes] = []
        self.entries: defaultdict[str, list[bytes]] = defaultdict(list)
        self.size = 0  # bytes of the envelopes, about half of all

    def add(self, outcome: Outcome, report: Report) -> None:
        ident = outcome.id.encode()
        publish_id = outcome.publish_id.encode() if outcome.publish_id else ident
        logged, live = self._encoder_of(outcome.uid).write(
            publish_id, outcome.messages, outcome.numbers
        )
        if outcome.published:
            logged = logged[outcome.published > CHANNEL :]
            live = live[outcome.published >= CHANNEL :]
        self.logged += logged
        self.live += live
        self.size += outcome.size
        if report is not None:
            self.reports.append(pack("PUBLISH", outcome.reply, orjson.dumps(report)))
        if not outcome.pending_store:
            entry = outcome.replay_entry
            self.entries[outcome.uid].append(entry.encode() if entry else ident)

    def pack(self) -> tuple[list[bytes], int]:
        """Return the commands in pieces, and their number.

        The writer joins them once: a batch has half a megabyte.
        """
        pieces = [PUBLISH] * (2 * len(self.live))
        pieces[1::2] = self.live
        pieces += self.reports
        for uid, idents in self.entries.items():
            pieces += [head(2 + len(idents), "XDEL", input_key(uid)), _pack_words(idents)]
        count = len(self.logged) + len(self.live) + len(self.reports) + len(self.entries)
        return self.logged + pieces, count


def _pack_words(words: Iterable[bytes]) -> bytes:
    """Pack words in any order. Words of one length are joined, which is cheaper than formatting."""
    packed = []
    for size, same_size in groupby(sorted(words, key=len), len):
        before = b"$%d\r\n" % size
        packed.append(before + (CRLF + before).join(same_size) + CRLF)
    return b"".join(packed)


def pack_signals(plans: Iterable[Plan], changes: Mapping[str, int]) -> list[bytes]:
    """Return one PUBLISH for each pipeline with a changed store.

    `changes` has the number of the last change by store.
    """
    return [pack("PUBLISH", channel, payload) for channel, payload in _signals(plans, changes)]


def publish_signals(plans: Iterable[Plan], outbox: Outbox, changes: Mapping[str, int]) -> None:
    """Publish the signals outside of a batch."""
    for channel, payload in _signals(plans, changes):
        outbox.publish(channel, payload)


def _signals(plans: Iterable[Plan], changes: Mapping[str, int]) -> Iterator[tuple[str, bytes]]:
    for plan in plans if changes else ():
        stores = {name: changes[name] for name in plan.all_stores if name in changes}
        if stores:
            yield changed_channel(plan.uid), orjson.dumps({"stores": stores})
