"""The bus of a pipeline under test: its input, its logs and its reports, in memory.

It survives a crash of the owner, as a server does.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from memrelay.bus.codec import decode_kept
from memrelay.bus.keys import PublicSwarm, reply_channel
from memrelay.bus.message import Message
from memrelay.bus.streams.entry import NewEntry
from memrelay.memory.control.dead_letters import DeadLetter
from memrelay.pipelines.plan import Plan, Timer
from memrelay.worker.deliver.public_fanout import find_public
from memrelay.worker.intake.timers import make_tick
from memrelay.worker.run.dead_letters import make_letter
from memrelay.worker.run.inputs import Entry, Published
from memrelay.worker.run.outcome import Outcome, PublicMessageLimit

Report = dict[str, Any]
# The words of XADD before the fields of an entry.
WORDS_BEFORE_FIELDS = 3


@dataclass(slots=True)
class VirtualClock:
    """The time of a pipeline under test, Unix ms. It stands still until the test advances it."""

    now_ms: int

    def __call__(self) -> int:
        """Return the time."""
        return self.now_ms


class LocalBus:
    """The server of one pipeline.

    `messages` has what was published, by swarm, each message once. `dead_letters` are in the order
    in which they failed.
    """

    def __init__(self, plan: Plan, clock: VirtualClock) -> None:
        self._plan, self._clock = plan, clock
        self.messages: defaultdict[str, list[Message]] = defaultdict(list)
        self.dead_letters: dict[str, DeadLetter] = {}
        # Entries without an acknowledgement, by their ID, and those that the owner has.
        self._entries: dict[str, Entry] = {}
        self._taken: set[str] = set()
        self._last = (0, 0)
        # The ids of published messages, since a crash makes the owner publish some again.
        self._published: set[tuple[str, int]] = set()
        self._reports: dict[str, Report] = {}
        self._channels = count(1)

    def make_channel(self) -> str:
        """Return the channel for the report of a new entry."""
        return reply_channel(self._plan.uid, str(next(self._channels)))

    def append(self, new: NewEntry) -> None:
        """Append an entry to the input."""
        ms, number = self._last
        now_ms = self._clock()
        self._last = (now_ms, 0) if now_ms > ms else (ms, number + 1)
        ident = f"{self._last[0]}-{self._last[1]}"
        words = new.words()[WORDS_BEFORE_FIELDS:]
        fields = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        self._entries[ident] = Entry(ident, self._plan, fields)

    def take(self) -> list[Entry]:
        """Return the entries that the owner does not have yet."""
        new = [entry for ident, entry in self._entries.items() if ident not in self._taken]
        self._taken.update(entry.id for entry in new)
        return new

    def give_back(self) -> None:
        """Let a new owner take all entries without an acknowledgement."""
        self._taken.clear()

    def add_dead_letters(self, outcomes: Sequence[Outcome]) -> None:
        """Keep the dead letters of a batch."""
        for outcome in outcomes:
            if outcome.dead_letter is not None:
                self.dead_letters[outcome.key] = make_letter(outcome, self._clock())

    def send(
        self,
        outcomes: Sequence[Outcome],
        reports: Sequence[Report | None],
        public_limit: PublicMessageLimit,
    ) -> None:
        """Publish and acknowledge a batch, as one MULTI does."""
        for message in find_public(outcomes, public_limit):
            if message.swarm.name in self._plan.listens_in_public:
                self.append(message.make_entry(self._plan.uid))
        for outcome, report in zip(outcomes, reports, strict=True):
            self._publish(outcome)
            if report is not None:
                self._reports[outcome.reply] = report
            if not outcome.pending_store:
                self._entries.pop(outcome.id, None)

    def _publish(self, outcome: Outcome) -> None:
        is_first_in_log = outcome.published == Published.CHANNEL_AND_LOG
        numbered = list(zip(outcome.numbers or count(), outcome.messages, strict=False))
        for number, (swarm, data) in numbered[is_first_in_log:]:
            key = (outcome.publish_id or outcome.id, number)
            if key not in self._published:
                self._published.add(key)
                name = swarm.name if isinstance(swarm, PublicSwarm) else str(swarm)
                self.messages[name].append(decode_kept(data))

    def take_report(self, channel: str) -> Report | None:
        """Return the report on a channel, None if its cascade has not ended."""
        return self._reports.pop(channel, None)


class LocalTimers:
    """The timers of a pipeline, by the virtual clock. The first interval begins now."""

    def __init__(self, plan: Plan, clock: Callable[[], int]) -> None:
        self._uid, now_ms = plan.uid, clock()
        self._due = {timer: _find_next(timer, now_ms) for timer in plan.timers}

    @property
    def next_ms(self) -> int | None:
        """Return when the next timer is due, Unix ms."""
        return min((due for due in self._due.values() if due is not None), default=None)

    def take_due(self, now_ms: int) -> list[NewEntry]:
        """Return an entry for each timer that is due."""
        due = [timer for timer, at in self._due.items() if at is not None and at <= now_ms]
        for timer in due:
            self._due[timer] = _find_next(timer, now_ms)
        return [NewEntry(self._uid, make_tick(one), agent=one.agent.alias) for one in due]


def _find_next(timer: Timer, now_ms: int) -> int | None:
    if timer.schedule is not None:
        return timer.schedule.find_next(now_ms)
    return now_ms + timer.interval_ms
