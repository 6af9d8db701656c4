"""The timeline of a message: what it waited for, ran, committed and asked, and for how long."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from aiohttp import web

from memrelay.pipelines.checked import CheckedBundle
from memrelay.web.api.operations import call_operation
from memrelay.web.trace.messages import Published, parse_step

WAIT, RUN, COMMIT, PUBLISH = "wait", "run", "commit", "publish"
CALL, PAUSE, DELIVERY = "call", "pause", "delivery"
# Gaps below this are within the precision of the clocks.
LEAST_GAP_MS = 1.5
MAX_STEPS = 200
# A shorter commit had no store.
LEAST_COMMIT_MS = 0.05
# Of a time that no step has.
REST = "Other work of the worker, not measured"
FIRST, NEXT = "Until it was published", "Until the next message"
NO_TIMES = (
    "The worker no longer has the times of this message: it has restarted, or has run many "
    "batches since. The bars show when its messages were published."
)


class Step(NamedTuple):
    """A part of a timeline. `start_ms` counts from the arrival of the message.

    `agent` is its name and `block` that of its block, "" for none. `detail` is an addition.
    """

    kind: str
    what: str
    start_ms: float
    took_ms: float
    agent: str = ""
    block: str = ""
    detail: str = ""

    @property
    def end_ms(self) -> float:
        """Return the end, in ms after the arrival."""
        return self.start_ms + self.took_ms

    def as_json(self) -> dict[str, Any]:
        """Return the step as the API shows it."""
        shown = self._asdict()
        return shown | {name: round(shown[name], 3) for name in ("start_ms", "took_ms")}


class Timeline(NamedTuple):
    """The steps in order. `total_ms` is the end of the last one that is no delivery.

    `summary` names the longest part, "" if there is none. `note` states the missing part.
    """

    steps: list[Step]
    total_ms: float
    summary: str
    note: str = ""


class Sources(NamedTuple):
    """The known times of a message: the output of `message_timings.list` or None, and
    the deliveries of its records with their tries.
    """

    timings: Mapping[str, Any] | None
    deliveries: Sequence[Mapping[str, Any]] = ()


async def read_timings(
    request: web.Request, uid: str, entry: str, timeout_s: float | None = None
) -> dict[str, Any]:
    """Return the output of `message_timings.list`. Raises Problem."""
    found: dict[str, Any] = await call_operation(
        request, "message_timings.list", uid, {"entry": entry}, timeout_s=timeout_s
    )
    return found


def make_timeline(
    bundle: CheckedBundle, entry: str, messages: Sequence[Published], sources: Sources
) -> Timeline:
    """Return the timeline of a message."""
    arrived_ms = float(entry.partition("-")[0])
    timings = sources.timings or {"batches": (), "calls": ()}
    if timings["batches"]:
        steps, note = _Builder(bundle, entry, arrived_ms).build(timings), ""
    else:
        steps, note = list(_from_log(messages, arrived_ms)), NO_TIMES if messages else ""
    steps = sorted(steps, key=lambda step: step.start_ms)[:MAX_STEPS]
    steps = list(_fill_gaps(steps)) if timings["batches"] else steps
    total_ms = max((step.end_ms for step in steps), default=0.0)
    summary = _summarize(steps, total_ms)
    for delivery in sources.deliveries:
        steps += _list_tries(delivery, arrived_ms)
    return Timeline(steps[:MAX_STEPS], total_ms, summary, note)


def _fill_gaps(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield the steps, and one for each time between them."""
    end_ms = 0.0
    for step in steps:
        if step.start_ms - end_ms >= LEAST_GAP_MS:
            yield Step(WAIT, REST, end_ms, step.start_ms - end_ms)
        yield step
        end_ms = max(end_ms, step.end_ms)


class _Builder:
    """Builds the steps from the times of a worker."""

    def __init__(self, bundle: CheckedBundle, entry: str, arrived_ms: float) -> None:
        self._entry, self._arrived_ms = entry, arrived_ms
        self._agents = {one.agent.alias: one for one in bundle.agents}
        # By id of an input: the end of its last batch.
        self._ends: dict[str, float] = {}

    def build(self, timings: Mapping[str, Any]) -> list[Step]:
        """Return the steps."""
        calls = defaultdict[str, list[Mapping[str, Any]]](list)
        for call in timings["calls"]:
            calls[call["id"]].append(call)
        steps = list[Step]()
        for batch in timings["batches"]:
            steps += self._list_before(batch, calls.pop(batch["id"], ()))
            steps += self._list_batch(batch)
        for ident, open_calls in calls.items():  # their results have not run yet
            steps += self._list_calls(open_calls, self._find_begin(ident))
        return steps

    def _find_begin(self, ident: str) -> float:
        """Return when an input could have run: its arrival, or the end of what led to it."""
        step = parse_step(ident.removeprefix(self._entry))
        if step is None:
            return 0.0
        return self._ends.get(self._entry + step.base, 0.0)

    def _list_before(
        self, batch: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]
    ) -> Iterator[Step]:
        """Yield what an input waited for before a batch."""
        ident, start_ms = batch["id"], batch["began_at_ms"] - self._arrived_ms
        is_retry = ident in self._ends and not calls
        before_ms = self._ends[ident] if is_retry else self._find_begin(ident)
        for step in self._list_calls(calls, before_ms):
            yield step
            before_ms = step.end_ms
        gap_ms = start_ms - before_ms
        is_first = ident == self._entry and not is_retry
        if gap_ms < LEAST_GAP_MS and not is_first:
            return
        gap_ms = max(0.0, gap_ms)
        if is_retry:
            yield Step(PAUSE, "Pause before the next attempt", before_ms, gap_ms)
        elif not is_first and not calls and self._is_held(batch):
            yield Step(WAIT, "Held by flow control", before_ms, gap_ms, detail="wf_flow")
        else:
            yield Step(WAIT, "Wait for the worker", before_ms, gap_ms)

    def _is_held(self, batch: Mapping[str, Any]) -> bool:
        """Return whether the first agent of a batch has `wf_flow`."""
        first = batch["blocks"][0]["agent"] if batch["blocks"] else ""
        return first in self._agents and self._agents[first].flow is not None

    def _list_calls(self, calls: Iterable[Mapping[str, Any]], before_ms: float) -> Iterator[Step]:
        what = "Wait for its turn"
        for call in calls:
            start_ms = call["began_at_ms"] - self._arrived_ms
            if start_ms - before_ms >= LEAST_GAP_MS:
                kind = WAIT if what == "Wait for its turn" else PAUSE
                yield Step(kind, what, before_ms, start_ms - before_ms)
            start_ms = max(start_ms, before_ms)
            detail = "failed" if call["failed"] else ""
            request = f"Request to {call['target']}" if call["target"] else "Call"
            names = self._name(call["agent"]), call["block"]
            yield Step(CALL, request, start_ms, call["took_ms"], *names, detail)
            before_ms, what = start_ms + call["took_ms"], "Pause before a retry"

    def _list_batch(self, batch: Mapping[str, Any]) -> Iterator[Step]:
        start_ms = max(0.0, batch["began_at_ms"] - self._arrived_ms)
        commit_ms, end_ms = batch["commit_ms"], start_ms + batch["took_ms"]
        others = batch["inputs"] - 1
        together = f"with {others:,} other{'s' if others > 1 else ''}" if others else ""
        for block in batch["blocks"]:
            found = self._agents.get(block["agent"])
            names = self._name(block["agent"]), found.block.name if found else ""
            yield Step(RUN, "Block", start_ms + block["start_ms"], block["took_ms"], *names)
        if not batch["blocks"]:
            run_ms = max(0.0, batch["took_ms"] - commit_ms)
            yield Step(RUN, "Batch", start_ms, run_ms, detail=together)
        if commit_ms >= LEAST_COMMIT_MS:
            yield Step(COMMIT, "Commit", end_ms - commit_ms, commit_ms, detail=together)
        if batch["published_ms"] is not None:
            yield Step(PUBLISH, "Publish", end_ms, batch["published_ms"])
        self._ends[batch["id"]] = end_ms

    def _name(self, alias: str) -> str:
        found = self._agents.get(alias)
        return found.agent.name if found else alias


def _from_log(messages: Sequence[Published], arrived_ms: float) -> Iterator[Step]:
    """Yield the steps that the times of the published messages show."""
    before_ms = 0.0
    for message in sorted(messages, key=lambda one: one.published_at_ms):
        at_ms = max(0.0, message.published_at_ms - arrived_ms)
        if message is messages[0] or at_ms - before_ms >= LEAST_GAP_MS:
            what = FIRST if message is messages[0] else NEXT
            yield Step(WAIT, what, before_ms, at_ms - before_ms, message.sender, message.block)
            before_ms = at_ms


def _list_tries(found: Mapping[str, Any], arrived_ms: float) -> Iterator[Step]:
    """Yield the tries of a delivery, with the waits before them."""
    delivery, before_ms = found["delivery"], 0.0
    for one in found["tries"]:
        start_ms = max(before_ms, one["at_ms"] - arrived_ms)
        if before_ms and start_ms - before_ms >= LEAST_GAP_MS:
            what = "Pause before the next try"
            yield Step(PAUSE, what, before_ms, start_ms - before_ms, block=delivery["type"])
        answer = f"HTTP {one['status']}" if one["status"] else one["answer"][:60] or "no answer"
        what = f"Delivery, try {one['number']}"
        place = delivery["endpoint"], delivery["type"]
        yield Step(DELIVERY, what, start_ms, float(one["took_ms"]), *place, answer)
        before_ms = start_ms + one["took_ms"]


def _summarize(steps: Sequence[Step], total_ms: float) -> str:
    """Return a sentence about the part that took longest, "" if nothing took time."""
    sums = defaultdict[tuple[str, str, str, str], float](float)
    for step in steps:
        sums[step.kind, step.what, step.agent, step.block] += step.took_ms
    if not sums or total_ms <= 0:
        return ""
    (kind, what, agent, block), most_ms = max(sums.items(), key=lambda pair: pair[1])
    share = min(100, round(100 * most_ms / total_ms))
    return f"{share} % of {format_ms(total_ms)} was {_describe(kind, what, agent, block)}."


# How the summary names steps. All others have their own name.
NAMES = {
    "Batch": "the batch in which it ran",
    "Commit": "the commit of its stores to disk",
    "Publish": "the publication of its results on the bus",
    REST: "other work of the worker between the steps, which is not measured",
    "Held by flow control": "the time for which flow control held it",
    FIRST: "the time until it was published",
    NEXT: "the time until a later message was published",
}


def _describe(kind: str, what: str, agent: str, block: str) -> str:
    of_agent = f" (agent {agent})" if agent else ""
    if kind == RUN and block:
        return f"block {block}{of_agent}"
    name = NAMES.get(what, f"the {what[0].lower()}{what[1:]}")
    return f"{name} of block {block}{of_agent}" if kind == CALL else name


def format_ms(took_ms: float) -> str:
    """Return a duration with its unit and three digits, for example 1.31 s."""
    if took_ms < 0.05:
        return "<0.1 ms"
    if took_ms < 10:
        return f"{took_ms:.1f} ms"
    if took_ms < 999.5:
        return f"{took_ms:.0f} ms"
    if took_ms < 59_950:
        return f"{took_ms / 1000:.3g} s" if took_ms < 9_995 else f"{took_ms / 1000:.1f} s"
    minutes, seconds = divmod(round(took_ms / 1000), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"
