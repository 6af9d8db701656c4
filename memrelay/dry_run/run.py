"""Runs one message through a bundle, on the stores of a folder."""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
from msgspec import Struct

from memrelay.bus.codec import encode
from memrelay.bus.message import new_message
from memrelay.bus.streams.entry import NewEntry
from memrelay.dry_run.calls import NoSecrets, ShownCalls
from memrelay.dry_run.recorder import Recorder
from memrelay.memory.engine.copy import copy_database
from memrelay.memory.engine.disk import make_folder
from memrelay.memory.engine.memory_id import store_path
from memrelay.memory.engine.models import load
from memrelay.memory.engine.snapshots import release_copy
from memrelay.memory.errors import Refused, StoreFenced
from memrelay.pipelines.check import check
from memrelay.pipelines.checked import CheckedBundle
from memrelay.pipelines.plan import Plan
from memrelay.pipelines.webhook_fields import parse_field
from memrelay.rehearsal.deliveries import Deliveries
from memrelay.testing.local_bus import LocalBus, VirtualClock
from memrelay.testing.owner import OpenCall, Owner, Surroundings
from memrelay.testing.pipeline import MAKE_ENTRIES
from memrelay.worker.intake.timers import make_tick
from memrelay.worker.limits import WorkerLimits
from memrelay.worker.run.batch import Batch
from memrelay.worker.run.inputs import Work
from memrelay.worker.run.outcome import Outcome

# Bytes of all stores that a try copies.
MAX_COPIED_BYTES = 256 << 20
# What waits or is counted in the live pipeline does not continue in a copy.
FORGET = ("pending", "flow_keys", "attempts")
NO_VECTORS = "no text was embedded: searches and duplicates are found by words alone"
TIMERS = "timers do not run in a try: choose the agent of a timer to call it"
UNHEARD = (
    "no block took the message: look at the swarms, at agent_from, and at the patterns of blocks"
)
WAITED = "waits (wf_flow) and pauses before retries were skipped"


class TryRequest(Struct, frozen=True):
    """One message to try. `bundle` is its JSON, which was checked.

    The message goes to `swarm` from `user`, or to the webhook of `agent`, with its `event` and
    `content_type`. `root` is the memory root whose stores of the pipeline are copied, "" for empty
    stores. `block_folders` are those of `blocks.paths`, and `refusals` why this server
    refuses the requests of agents, by alias.
    """

    bundle: str
    uid: str
    timezone: str
    text: str
    now_ms: int
    swarm: str = ""
    agent: str = ""
    user: str = "User"
    headers: dict[str, str] = {}
    root: str = ""
    block_folders: list[str] = []
    refusals: dict[str, str] = {}
    message_bytes: int = 1 << 20


class RecordedBatch(Batch):
    """A batch that tells the recorder which input runs."""

    recorder: Recorder

    def _run_one(self, one: Work) -> Outcome:
        self.recorder.begin_input(one.key)
        return super()._run_one(one)


class TryOwner(Owner):
    """An owner that leaves out the deferred calls of own blocks."""

    calls: ShownCalls

    def find_deliveries(self, plan: Plan) -> Deliveries:
        """Return the deliveries to endpoints that changes from now on lead to."""
        deliveries = Deliveries(self._stores)
        deliveries.use(plan)
        return deliveries

    async def _execute(self, call: OpenCall) -> None:
        if self.calls.leaves_out(call.pending):
            self._queues.calls.remove(call)
        else:
            await super()._execute(call)


def copy_own_stores(request: TryRequest, plan: Plan, folder: Path, recorder: Recorder) -> None:
    """Copy the stores of the pipeline that exist. Raises Refused if they are too large."""
    root, own = Path(request.root), f"instances/{request.uid}/"
    names = [one for one in plan.all_stores if store_path(root, one).exists()]
    for name in names:
        if not name.startswith(own):
            recorder.note(f"the store {name} is shared: it began empty")
    names = [one for one in names if one.startswith(own)]
    size = sum(store_path(root, one).stat().st_size for one in names)
    if size > MAX_COPIED_BYTES:
        raise Refused(
            f"the stores have {size >> 20} MiB, and a try copies at most "
            f"{MAX_COPIED_BYTES >> 20} MiB: use empty stores, or a rehearsal"
        )
    for name in names:
        target = store_path(folder, name)
        make_folder(target.parent)
        copy_database(store_path(root, name), target)
        release_copy(target)
        with closing(apsw.Connection(str(target))) as connection:
            for table in FORGET:
                connection.execute(f"DELETE FROM {table}")


class Try:
    """One try. Its stores are in `folder`. `runner` has the event loop."""

    def __init__(self, request: TryRequest, folder: Path, recorder: Recorder) -> None:
        self._request, self._recorder = request, recorder
        source = request.bundle.encode()
        checked = check(source, uid=request.uid, timezone=request.timezone).accepted()
        self._bundle: CheckedBundle = recorder.wrap(checked)
        plan = self._plan = recorder.plan = Plan(self._bundle)
        if request.root:
            copy_own_stores(request, plan, folder, recorder)
        self._clock = VirtualClock(request.now_ms)
        self._bus = LocalBus(plan, self._clock)
        secrets = NoSecrets(folder, {})
        limits = WorkerLimits(batch=1, message_bytes=request.message_bytes)
        calls = ShownCalls(plan, secrets, limits.message_bytes, recorder, request.refusals)
        self._surroundings = Surroundings(
            plan, folder, self._bus, self._clock, None, calls, secrets, limits, lambda step: None
        )
        RecordedBatch.recorder, TryOwner.batch_class = recorder, RecordedBatch
        TryOwner.calls = calls
        self._owner = self._make_owner()
        self._deliveries = self._owner.find_deliveries(plan)

    def run(self, runner: asyncio.Runner) -> None:
        """Run the message to its end."""
        self._note_limits()
        for entry in self._make_entries():
            self._bus.append(entry)
        runner.run(self._run())
        if not self._recorder.steps:
            self._recorder.note(UNHEARD)
        for delivered in self._deliveries.find():
            self._note_delivery(delivered.endpoint, delivered.event, delivered.record)

    def close(self) -> None:
        """Close the stores."""
        self._owner.close()

    @property
    def dead_letters(self) -> list[dict[str, str]]:
        """Return the messages that failed, with their reasons."""
        failed = self._bus.dead_letters.values()
        return [{"agent": one.agent, "reason": one.error.partition("\n")[0]} for one in failed]

    async def _run(self) -> None:
        owner, clock = self._owner, self._clock
        await owner.run()
        while (due_ms := owner.next_ms) is not None:
            if due_ms > clock.now_ms:
                self._recorder.note(WAITED)
                clock.now_ms = due_ms
            await owner.run()

    def _make_owner(self) -> TryOwner:
        epoch = 1
        while True:
            try:
                return TryOwner(self._surroundings, epoch)
            except StoreFenced as fenced:  # a copy
                epoch = fenced.epoch + 1

    def _make_entries(self) -> list[NewEntry]:
        request, uid = self._request, self._request.uid
        if not request.agent:
            sender, now_ms = self._find_sender(), request.now_ms
            message = new_message(sender, "try", request.text, username=request.user, now_ms=now_ms)
            return [NewEntry(uid, encode(message), request.swarm)]
        timers = {one.agent.alias: one for one in self._plan.timers}
        if not request.text and request.agent in timers:
            return [NewEntry(uid, make_tick(timers[request.agent]), agent=request.agent)]
        agent = next(one for one in self._bundle.agents if one.agent.alias == request.agent)
        headers = {name.lower(): value for name, value in request.headers.items()}
        event = headers.get("event", "")
        for field in agent.sender.event if agent.sender is not None else ():
            for place in parse_field(field):
                if not isinstance(place, str) and place.kind == "header":
                    event = event or headers.get(place.name.lower(), "")
        make_entries: Any = load(MAKE_ENTRIES)
        content_type = headers.get("content-type", "")
        entries: list[NewEntry] = make_entries(
            uid, agent, request.text, request.now_ms, content_type=content_type, event=event
        )
        return entries

    def _find_sender(self) -> str:
        """Return the sender of a message: the chat on its swarm, unless the user is one of them."""
        user, swarm = self._request.user, self._request.swarm
        chats = [one for one in self._bundle.agents if one.is_publisher]
        names = [one.agent.name for one in chats if one.send_swarm == swarm]
        return user if user in names or not names else names[0]

    def _note_limits(self) -> None:
        if self._plan.embedded_stores:
            self._recorder.note(NO_VECTORS)
        if self._plan.timers:
            self._recorder.note(TIMERS)

    def _note_delivery(self, endpoint: str, event: str, record: str) -> None:
        """Show a webhook to an endpoint in the step that changed the record."""
        for step in self._recorder.steps:
            if any(one["guid"] == record for one in step.stored):
                target = f"endpoint {endpoint}"
                step.sends.append({"what": "webhook", "target": target, "body": event})
                return
