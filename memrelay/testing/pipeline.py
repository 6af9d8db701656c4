"""test_pipeline: run a pipeline in the process of a test, without a bus and a web server."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import orjson
from msgspec.structs import replace

from memrelay import pipelines
from memrelay.blocks.sources import list_folders, use_folders
from memrelay.bus.codec import decode_kept, encode
from memrelay.bus.message import Message, new_message
from memrelay.bus.request import NewCall
from memrelay.bus.streams.entry import NewEntry
from memrelay.guarded_http.rules import OutgoingRules, SecretBinding
from memrelay.memory.control.dead_letters import DeadLetter
from memrelay.memory.engine.models import load
from memrelay.memory.errors import StoreFenced
from memrelay.memory.search.embedding.embedder import EmbeddingOptions
from memrelay.pipelines.check import check
from memrelay.pipelines.checked import CheckedBundle
from memrelay.pipelines.plan import Plan
from memrelay.pipelines.secret_references import SecretResolver
from memrelay.testing.calls import CallExecutor, Requested
from memrelay.testing.crashes import AFTER, BEFORE, Crash, Crashes, Step
from memrelay.testing.durations import Duration, parse_duration_ms, parse_time_ms
from memrelay.testing.local_bus import LocalBus, LocalTimers, VirtualClock
from memrelay.testing.owner import Owner, Surroundings
from memrelay.testing.store import PipelineStore
from memrelay.worker.limits import WorkerLimits

if TYPE_CHECKING:
    from memrelay.worker.without_bus.vectors import Vectors

Bundle = Mapping[str, Any] | str | Path
UID, USER = "test", "User"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
# Reads the body of a webhook with the code of the web server, which takes longer to load.
MAKE_ENTRIES = "memrelay.testing.webhook:make_entries"
# Loaded with an embedder.
VECTORS = "memrelay.worker.without_bus.vectors:Vectors"


class MessageFailed(AssertionError):
    """A message became a dead letter. The text has its reason."""


@dataclass(frozen=True, slots=True)
class Options:
    """The arguments of `test_pipeline`."""

    folder: Path | None = None
    now: str | datetime | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)
    embedder: Literal["none", "auto", "local", "bge"] = "none"
    limits: WorkerLimits = field(default_factory=WorkerLimits)


class _Pipeline:
    """What both forms of a pipeline under test have."""

    def __init__(self, bundle: CheckedBundle, options: Options, stack: ExitStack) -> None:
        self._agents = {one.agent.alias: one for one in bundle.agents}
        plan = self._plan = Plan(bundle)
        now_ms = time.time_ns() // 1_000_000 if options.now is None else parse_time_ms(options.now)
        clock = self._clock = VirtualClock(now_ms)
        self._bus, self._timers = LocalBus(plan, clock), LocalTimers(plan, clock)
        self._crashes = Crashes()
        outgoing = _make_rules(options.secrets)
        environment = {name.removeprefix("env:"): one for name, one in options.secrets.items()}
        references = [f"env:{name}" for name in environment]
        folder = options.folder or Path(stack.enter_context(TemporaryDirectory()))
        secrets = SecretResolver(folder, environment, for_blocks=references, outgoing=outgoing)
        self._calls = CallExecutor(plan, secrets, outgoing, options.limits.message_bytes)
        vectors: Vectors | None = None
        if options.embedder != "none":
            vectors = load(VECTORS)(EmbeddingOptions(options.embedder))
            stack.callback(vectors.close)
        self._surroundings = Surroundings(
            plan,
            folder,
            self._bus,
            clock,
            vectors,
            self._calls,
            secrets,
            options.limits,
            self._crashes.reach,
        )
        self._epoch = 1
        self._owner = self._make_owner()
        if any(folder.rglob("*.db")):
            self._recover()

    @property
    def now(self) -> datetime:
        """Return the virtual time, in UTC."""
        return datetime.fromtimestamp(self._clock.now_ms / 1000, UTC)

    @property
    def dead_letters(self) -> list[DeadLetter]:
        """Return the messages that failed, with the reason as `error`."""
        return list(self._bus.dead_letters.values())

    @property
    def requests(self) -> list[Requested]:
        """Return the deferred calls that were made, repeated ones included."""
        return list(self._calls.requests)

    @property
    def crashes(self) -> int:
        """Return how many crashes have happened."""
        return self._crashes.count

    def messages(self, swarm: str = "chat", *, sender: str = "") -> list[Message]:
        """Return the messages of a swarm, each once, with those that were sent to it.

        `sender` selects those of one sender.
        """
        self._check_swarm(swarm)
        return [one for one in self._bus.messages[swarm] if sender in ("", one.sender)]

    def store(self, name: str = "") -> PipelineStore:
        """Return a store of the pipeline with the methods of `open_store`.

        `name` is that below `instances/UID/`, or a whole `memory_id`; by default it is the
        pipeline's first store.
        """
        return PipelineStore(UID, name, self._answer)

    def answer(self, name: str, *answers: Any) -> None:
        """Answer the deferred calls of an agent or a block, by its alias or name.

        Each call gets the next of the answers, and the last one is used again. An answer is the
        result of the executor as a JSON value, for an async block the text of its message; or a
        function that gets the request and returns it; or an exception to raise.
        """
        if not answers:
            raise ValueError(f'pass at least one answer: p.answer("{name}", ...)')
        self._check_caller(name)
        self._calls.answers[name] = list(answers)

    def execute(self, name: str) -> None:
        """Really make the requests of an agent or a block, also to this machine."""
        self._check_caller(name)
        self._calls.answers.pop(name, None)
        self._calls.real.add(name)

    def crash_before(self, step: Step) -> None:
        """Crash the next time before a step, as `crash_after` does."""
        self._crashes.scheduled.append(BEFORE[step])

    def crash_after(self, step: Step) -> None:
        """Crash the next time after a step: "commit" of a store, "publish" of the results of a
        batch, or "call" of an executor.

        The state of the process is lost. A new owner recovers from the files of the stores and
        from the input, as a worker does.
        """
        self._crashes.scheduled.append(AFTER[step])

    def _check_swarm(self, swarm: str) -> None:
        if swarm not in self._plan.swarms:
            names = ", ".join(self._plan.swarms)
            raise ValueError(f"the pipeline has no swarm {swarm!r}; it has {names}")

    def _check_caller(self, name: str) -> None:
        planned = [self._plan.subscriber(alias) for alias in self._agents]
        callers = [one for one in planned if one is not None and one.executor is not None]
        names = {one.agent.alias for one in callers} | {one.block for one in callers}
        if name not in names:
            raise ValueError(
                f"no agent or block {name!r} makes deferred calls; these do: "
                f"{', '.join(sorted(names)) or 'none'}"
            )

    def _make_owner(self) -> Owner:
        while True:
            try:
                return Owner(self._surroundings, self._epoch)
            except StoreFenced as fenced:  # the folder was used before
                self._epoch = fenced.epoch + 1

    def _recover(self) -> None:
        try:
            self._owner.recover()
        except Crash:
            self._restart()

    def _restart(self) -> None:
        """End the owner, and let the next one recover."""
        self._owner.close()
        self._epoch += 1
        self._owner = self._make_owner()
        self._recover()

    async def _settle(self) -> None:
        """Run everything that can run at this time."""
        while True:
            try:
                await self._owner.run()
            except Crash:
                self._restart()
            else:
                return

    def _answer(self, call: NewCall) -> dict[str, Any]:
        """Return the answer to a call from the test. Raises OperationFailed."""
        if not call.mutates:
            return self._owner.answer(call)
        channel = self._bus.make_channel()
        self._bus.append(call.as_entry(channel))
        try:
            self._owner.work_off()
        except Crash:
            self._restart()
        return self._owner.take_answer(channel, call.op)

    async def _say(self, text: str, swarm: str, person: tuple[str, str]) -> list[Message]:
        self._check_swarm(swarm)
        (sender, username), now_ms = person, self._clock.now_ms
        message = new_message(sender, "test", text, username=username, now_ms=now_ms)
        return await self._send([NewEntry(UID, encode(message), swarm)])

    async def _post(self, agent: str, body: Any, content_type: str, event: str) -> list[Message]:
        if agent not in self._agents:
            names = ", ".join(self._agents)
            raise ValueError(f"the pipeline has no agent {agent!r}; it has {names}")
        make_entries = load(MAKE_ENTRIES)
        checked, now_ms = self._agents[agent], self._clock.now_ms
        return await self._send(
            make_entries(UID, checked, body, now_ms, content_type=content_type, event=event)
        )

    async def _send(self, entries: Sequence[NewEntry]) -> list[Message]:
        """Append entries, run them, and return the results of their cascades that have ended."""
        channels = [self._bus.make_channel() for _ in entries]
        for entry, channel in zip(entries, channels, strict=True):
            self._bus.append(replace(entry, reply=channel))
        await self._settle()
        results, errors = [], []
        for channel in channels:
            report = self._bus.take_report(channel) or {}
            results += [decode_kept(orjson.dumps(one)) for one in report.get("results", ())]
            errors += report.get("errors", ())
        if errors:
            raise MessageFailed("; ".join(errors))
        return results

    async def _advance(self, duration: Duration) -> None:
        clock, bus = self._clock, self._bus
        until_ms = clock.now_ms + parse_duration_ms(duration)
        while (due_ms := self._find_due()) is not None and due_ms <= until_ms:
            clock.now_ms = max(clock.now_ms, due_ms)
            for entry in self._timers.take_due(clock.now_ms):
                bus.append(entry)
            await self._settle()
        clock.now_ms = until_ms
        self._owner.delete_expired()

    def _find_due(self) -> int | None:
        dues = (self._owner.next_ms, self._timers.next_ms)
        return min((due for due in dues if due is not None), default=None)

    async def _crash(self) -> None:
        self._crashes.count += 1
        self._restart()
        await self._settle()

    async def _close(self) -> None:
        self._owner.close()
        await self._calls.close()


class PipelineUnderTest(_Pipeline):
    """A pipeline in the process of a test, for `async with`."""

    async def say(
        self, text: str, *, swarm: str = "chat", sender: str = USER, username: str = ""
    ) -> list[Message]:
        """Send a text to a swarm, run everything that follows now, and return the results.

        `sender` is the `from` of the message, and `username` the person, by default the sender.
        [] if nothing answers, or if the message waits for a later time. Raises MessageFailed if it
        becomes a dead letter, and NoAnswer for a request without an answer of the test.
        """
        return await self._say(text, swarm, (sender, username or sender))

    async def webhook(
        self, agent: str, body: Any, *, event: str = "", content_type: str = ""
    ) -> list[Message]:
        """Deliver the body of a webhook to an agent, and return the results as `say` does.

        `body` is a JSON value, a text or bytes. The signature counts as valid. `event` is the name
        of the event for an agent with a sender.
        """
        return await self._post(agent, body, content_type, event)

    async def advance(self, duration: Duration) -> None:
        """Let the virtual time pass: "90s", "2h", "1d", seconds, or a timedelta.

        Timers, messages that wait because of `wf_flow`, and retries run when they are due. Expired
        records are deleted at the end.
        """
        await self._advance(duration)

    async def crash(self) -> None:
        """Crash now, and let a new owner recover."""
        await self._crash()


class BlockingPipelineUnderTest(_Pipeline):
    """The same for `with`, in tests without an event loop."""

    _runner: asyncio.Runner

    def say(
        self, text: str, *, swarm: str = "chat", sender: str = USER, username: str = ""
    ) -> list[Message]:
        """Send a text as `PipelineUnderTest.say` does."""
        return self._runner.run(self._say(text, swarm, (sender, username or sender)))

    def webhook(
        self, agent: str, body: Any, *, event: str = "", content_type: str = ""
    ) -> list[Message]:
        """Deliver a webhook as `PipelineUnderTest.webhook` does."""
        return self._runner.run(self._post(agent, body, content_type, event))

    def advance(self, duration: Duration) -> None:
        """Let the virtual time pass as `PipelineUnderTest.advance` does."""
        self._runner.run(self._advance(duration))

    def crash(self) -> None:
        """Crash now, and let a new owner recover."""
        self._runner.run(self._crash())


class PipelineTest:
    """The context of a pipeline under test, for `with` and `async with`."""

    def __init__(self, bundle: CheckedBundle, options: Options) -> None:
        self._bundle, self._options = bundle, options
        self._pipeline: _Pipeline
        self._stack: ExitStack

    def __enter__(self) -> BlockingPipelineUnderTest:
        if _has_event_loop():
            raise RuntimeError("an event loop runs here: write `async with test_pipeline(...)`")
        with ExitStack() as stack:
            pipeline = BlockingPipelineUnderTest(self._bundle, self._options, stack)
            pipeline._runner = stack.enter_context(asyncio.Runner())
            self._pipeline, self._stack = pipeline, stack.pop_all()
        return pipeline

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        with self._stack:
            pipeline = self._pipeline
            assert isinstance(pipeline, BlockingPipelineUnderTest)
            pipeline._runner.run(pipeline._close())
        if error is None:
            self._pipeline._crashes.check_all_happened()

    async def __aenter__(self) -> PipelineUnderTest:
        with ExitStack() as stack:
            pipeline = PipelineUnderTest(self._bundle, self._options, stack)
            self._pipeline, self._stack = pipeline, stack.pop_all()
        return pipeline

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        with self._stack:
            await self._pipeline._close()
        if error is None:
            self._pipeline._crashes.check_all_happened()


def test_pipeline(
    bundle: Bundle,
    *,
    blocks: str | Path = "",
    folder: Path | None = None,
    now: str | datetime | None = None,
    secrets: Mapping[str, str] | None = None,
    embedder: Literal["none", "auto", "local", "bge"] = "none",
    limits: WorkerLimits | None = None,
) -> PipelineTest:
    """Return a pipeline that runs in this process, for `with` and `async with`.

    `bundle` is a dictionary, the path of a JSON file, or the name of a sample such as
    "memory_test" or "webhooks/github". It may use the blocks that the test has imported, and those
    in the folder `blocks`, as in `blocks.paths`. It runs with the worker's code on stores in
    `folder`, by default a temporary one, and its UID is `test`. The time begins at `now` (RFC 3339
    or a datetime with a zone; by default the present) and passes only with `advance`.

    `secrets` are the values of references such as `env:GITHUB_SECRET`. With the `embedder` "bge" or
    "local" searches compare meanings too, which needs the extra of that name; "auto" is the first
    one that is installed.

    Raises BundleRefused with all faults of the bundle, and FileNotFoundError.
    """
    folders = list_folders()
    use_folders([*folders, *([Path(blocks)] if blocks else [])])
    try:
        checked = check(_read_bundle(bundle), uid=UID).accepted()
    finally:
        use_folders(folders)
    options = Options(folder, now, secrets or {}, embedder, limits or WorkerLimits())
    return PipelineTest(checked, options)


# Test runners collect functions with this name from the module that imports it.
test_pipeline.__test__ = False  # type: ignore[attr-defined]


def _has_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _read_bundle(bundle: Bundle) -> bytes:
    if isinstance(bundle, Mapping):
        return orjson.dumps(dict(bundle))
    samples = Path(pipelines.__path__[0])
    is_name = isinstance(bundle, str) and not bundle.endswith(".json")
    path = samples / f"{bundle}.json" if is_name else Path(bundle)
    if is_name and not path.exists():
        names = sorted(
            str(one.relative_to(samples).with_suffix("")) for one in samples.rglob("*.json")
        )
        raise FileNotFoundError(f"there is no sample {bundle!r}; there are {', '.join(names)}")
    return path.read_bytes()


def _make_rules(secrets: Mapping[str, str]) -> OutgoingRules:
    """Return rules that let really executed requests reach any address. Each secret may go to
    loopback, and to its host if it is a URL.
    """
    bindings = [
        SecretBinding(
            f"env:{name.removeprefix('env:')}",
            LOOPBACK | {(urlsplit(value).hostname or "").lower()},
        )
        for name, value in secrets.items()
    ]
    return OutgoingRules(
        any_port=True, open_for=frozenset({"http", "models"}), secrets=tuple(bindings)
    )
