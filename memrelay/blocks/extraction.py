"""The common part of the blocks `extract` and `summarize`: they read turns in
batches, ask a model about each batch in a deferred call, and write its answer.

Records and cursor are written in the transaction of the message that brings the answer. So a crash
repeats a request at most, and no record.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import compress
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import orjson
from pydantic import AfterValidator, BeforeValidator, Field

from memrelay.blocks.contract import Call, DeferredCall, SecretReference
from memrelay.blocks.memory_args import MemoryId, StoreArgs, make_context, naming_call
from memrelay.blocks.model_url import Url
from memrelay.bus.message import Message
from memrelay.memory.admission import REVIEW, settle
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import PolicyStop, RecordDamaged
from memrelay.memory.models.extraction.progress import Progress, ProgressTable, Turn
from memrelay.memory.models.extraction.settings import Settings
from memrelay.memory.models.turns.turns import MAX_THREAD, TurnView, view_turn
from memrelay.memory.operations import known_operation
from memrelay.memory.records.data import text_fault
from memrelay.memory.stopped_writes import Dropped, ReviewPending

EXECUTOR = "memrelay.agents.completion:complete"
# Calls that one message or one tick of a timer leads to, at most.
MOST_CALLS = 50
# Windows of unwanted turns that one message passes.
MOST_WINDOWS = 20
# Seconds after the deadline of a call until it counts as lost.
GRACE_S = 300
LOST = "a call was lost: its answer did not come, or is a dead letter of the pipeline"
LOST_RETRIES = 2
# Seconds until a service without an answer is asked again. They double.
FIRST_RETRY_S, LONGEST_RETRY_S = 60, 3600
PERIODS_MS = {"hour": 3_600_000, "day": 86_400_000}
# Characters of a turn, and of all turns, in one request.
MAX_TURN, MAX_BATCH = 4000, 24_000
# A code block around a whole answer, and the end of the thoughts of some models.
FENCE = re.compile(r"\A```[a-zA-Z]*[ \t]*\r?\n(.*)```\Z", re.DOTALL)
THOUGHT_END = "</think>"
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
PROJECT, MAX_PROJECT = "project", 512


def _parse_names(value: Any) -> Any:
    """Return names. A string lists them with commas or as JSON."""
    if isinstance(value, str):
        text = value.strip()
        value = orjson.loads(text) if text.startswith("[") else text.split(",")
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise ValueError("must be an array of names")
    return tuple(dict.fromkeys(name for one in value if (name := one.strip())))


def _check_threads(threads: tuple[str, ...]) -> tuple[str, ...]:
    for one in threads:
        if len(one) > MAX_THREAD or "*" in one[:-1]:
            raise ValueError(
                f"{one[:100]!r} must be the name of a thread, or a beginning that ends with `*`"
            )
    return threads


_Names = BeforeValidator(_parse_names, json_schema_input_type=tuple[str, ...] | str)
Roles = Annotated[
    tuple[Annotated[str, Field(max_length=256)], ...], _Names, Field(min_length=1, max_length=20)
]
Threads = Annotated[tuple[str, ...], _Names, AfterValidator(_check_threads), Field(max_length=100)]
Count = Annotated[int, Field(ge=1, le=10**9)]


class ExtractionArgs(StoreArgs):
    """The model, the turns that it gets, and the budget."""

    memory_id: MemoryId = ""
    """Path of the store with the turns. By default `instances/${pipeline_uid}/memories`."""
    url: Url
    """Base URL of an OpenAI-compatible API, or the URL of its `/chat/completions`."""
    model: Annotated[str, Field(min_length=1)]
    """The server's name for the model."""
    api_key: SecretReference = ""
    """Place of the API key, `env:NAME` or `file:NAME`, which `outgoing.secrets` must list for the
    host of the URL, or `agents.secrets` for any host."""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = 0.0
    """The model's temperature; null for the default of the service."""
    max_tokens: Count | None = None
    """Maximum length of an answer, in tokens."""
    prompt: Annotated[str, Field(max_length=20_000)] = ""
    """Further instructions for the model, after the built-in ones."""
    threads: Threads = ()
    """Only turns of these threads. A name may end with `*`: `capture/*`."""
    roles: Roles = ("user", "assistant")
    """Only turns with these roles."""
    read_backlog: bool = True
    """Whether the turns are read that exist before the first run."""
    budget_calls: Count = 500
    """Maximum number of calls in a period."""
    budget_tokens: Count | None = None
    """Number of tokens in a period after which no further call is made."""
    budget_period: Literal["hour", "day"] = "day"
    """The period of the budget, in UTC."""
    retries: Annotated[int, Field(ge=0, le=10)] = 2
    """How often the model is asked again after an unusable answer, until the turns are left out."""
    deadline_s: Annotated[int, Field(ge=1, le=600)] = 120
    """Seconds for one answer of the model, with its repeated attempts."""

    @property
    def default_store(self) -> str:
        """Return the built-in store of the pipeline's memories."""
        return "memories"

    @property
    def secret_hosts(self) -> dict[str, str]:
        """Return the host that gets the API key."""
        return {self.api_key: urlsplit(self.url).hostname or ""} if self.api_key else {}

    @cached_property
    def settings(self) -> Settings:
        return Settings("turn", self.roles, self.threads, self.budget_calls, self.budget_tokens)

    @cached_property
    def options(self) -> dict[str, Any]:
        """Return the fields of a request that are the same for each batch."""
        names = ("url", "model", "api_key", "temperature", "max_tokens", "deadline_s")
        return {name: getattr(self, name) for name in names}


class UnusableAnswer(Exception):
    """The model's answer breaks a rule. The text names it, and quotes nothing of the answer."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Turns of one thread and one user, oldest first. `earlier` is text that precedes them.

    `asked` has the guids of all turns that the model got. Some of them may have been deleted since.
    """

    turns: Sequence[Turn]
    views: Sequence[TurnView]
    earlier: str = ""
    asked: Sequence[str] = ()

    def find(self, index: int) -> str:
        """Return the guid of a turn that the model got, "" if it was deleted since."""
        guid = self.asked[index]
        return guid if any(turn.guid == guid for turn in self.turns) else ""

    @property
    def thread(self) -> str:
        """Return the conversation, "" for turns without one."""
        return self.turns[0].thread

    @property
    def user(self) -> str:
        """Return the user, "" for turns without one."""
        return self.turns[0].user or ""

    @property
    def project(self) -> str:
        """Return the project of the first turn, "" for none."""
        return find_project(self.views[0])


@dataclass(slots=True)
class Written:
    """Counts of the parts of an answer, by the column of Progress."""

    counts: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, count: int = 1) -> None:
        """Count parts."""
        self.counts[name] = self.counts.get(name, 0) + count


class Job(NamedTuple):
    """How a block takes a batch, asks about it, and writes the answer.

    `take` gets the turns that wait, the oldest first, and returns those of a batch. `ask` returns
    the instructions. `write` raises UnusableAnswer before it writes, and Transient.
    """

    name: str
    take: Callable[[Call, Any, Sequence[Turn]], Batch | None]
    ask: Callable[[Any], str]
    write: Callable[[Call, Any, Batch, str], Written]
    wants_json: bool


def run_job(call: Call, args: ExtractionArgs, job: Job) -> Message | DeferredCall | None:
    """Ask the model about the next batch, or write its answer and ask about the one after it.

    Returns counts after the last answer, and None if there was nothing to do.
    """
    table, agent = call.tx.table(ProgressTable), call.agent
    progress = table.find(agent.pipeline, agent.alias, job.name)
    now_ms, written = call.now_ms, None
    if progress.ran_ms == 0 and not args.read_backlog:
        call.tx.records.flush()
        progress = progress._replace(read_to=call.tx.records.last_row)
    if call.got is not None:
        if progress.call != call.deferred_call_id:
            return None  # it counted as lost, and another call has its turns
        answer = _read_answer(call)
        now_ms = max(now_ms, answer.get("ended_at_ms", 0))
        progress, written = _take_answer(call, args, job, progress, answer=answer, now_ms=now_ms)
    elif progress.call and now_ms < progress.until_ms:
        return None
    elif progress.call:
        progress = _give_up(args, progress, now_ms)
    settings = orjson.dumps(asdict(args.settings)).decode()
    progress = progress._replace(call="", settings=settings, ran_ms=max(now_ms, 1))
    progress, request = _ask_next(call, args, job, progress, now_ms)
    table.put(progress)
    if request is not None:
        return request
    return None if written is None else call.reply_json(written.counts)


def _read_answer(call: Call) -> dict[str, Any]:
    got = call.got
    assert got is not None
    if got.error or not isinstance(got.value, dict):
        return {"error": got.error or "no answer", "is_rejected": False}
    return got.value


def _take_answer(
    call: Call,
    args: ExtractionArgs,
    job: Job,
    progress: Progress,
    *,
    answer: Mapping[str, Any],
    now_ms: int,
) -> tuple[Progress, Written]:
    """Write an answer. Return the progress after it, and the counts."""
    written, fault = Written(), str(answer.get("error", ""))
    rows = [row for row, _ in progress.batch_turns]
    if fault and not answer["is_rejected"]:
        failures = progress.failures + 1
        pause_s = min(FIRST_RETRY_S * 2 ** min(failures - 1, 10), LONGEST_RETRY_S)
        calls = progress.calls - (not answer.get("was_sent", True))
        progress = progress.with_error(fault, now_ms)._replace(calls=max(calls, 0))
        return progress._replace(failures=failures, retry_ms=now_ms + 1000 * pause_s), written
    progress = progress._replace(
        failures=0, retry_ms=0, tokens=progress.tokens + int(answer.get("tokens", 0))
    )
    batch = _load_batch(call, progress)
    try:
        if fault:
            raise UnusableAnswer(fault)
        if batch is not None:
            written = job.write(call, args, batch, str(answer["text"]))
    except UnusableAnswer as unusable:
        progress, is_left_out = _reject(progress.with_error(str(unusable), now_ms), args.retries)
        if is_left_out:
            written.add("rejected")
        return progress, written
    written.add("batches")
    totals = {name: getattr(progress, name) + count for name, count in written.counts.items()}
    return progress.with_done(rows)._replace(**totals), written


def _give_up(args: ExtractionArgs, progress: Progress, now_ms: int) -> Progress:
    """Count a call whose answer never came, or could not be written, such as a dead letter."""
    return _reject(progress.with_error(LOST, now_ms), max(args.retries, LOST_RETRIES))[0]


def _reject(progress: Progress, retries: int) -> tuple[Progress, bool]:
    """Count an unusable answer. After the last retry, leave the turns out, and return True."""
    if progress.attempts < retries:
        return progress._replace(attempts=progress.attempts + 1), False
    rows = [row for row, _ in progress.batch_turns]
    progress = progress.with_done(rows)
    return progress._replace(
        rejected=progress.rejected + 1, rejected_turns=progress.rejected_turns + len(rows)
    ), True


def _load_batch(call: Call, progress: Progress) -> Batch | None:
    """Return the turns of the answered call that are still there, None if none is."""
    asked = progress.batch_turns
    found = ((row, call.tx.records.by_guid(guid)) for row, guid in asked)
    batch = make_batch([(row, stored) for row, stored in found if stored is not None])
    return batch and replace(batch, asked=[guid for _, guid in asked])


def _ask_next(
    call: Call, args: ExtractionArgs, job: Job, progress: Progress, now_ms: int
) -> tuple[Progress, DeferredCall | None]:
    """Return the progress with the call that is made now, and its request; None for no call."""
    period_ms = PERIODS_MS[args.budget_period]
    if now_ms >= progress.period_ms:
        until_ms = (now_ms // period_ms + 1) * period_ms
        progress = progress._replace(period_ms=until_ms, calls=0, tokens=0)
    if now_ms < progress.retry_ms or not _has_budget(args, progress):
        return progress, None
    # The id of a call grows with each call that it follows.
    if call.got is not None and call.deferred_call_id.count("+") >= MOST_CALLS:
        return progress, None
    progress, batch = _take_batch(call, args, job, progress, now_ms)
    if batch is None:
        return progress, None
    progress = progress._replace(
        call=call.next_deferred_call_id,
        until_ms=now_ms + 1000 * (args.deadline_s + GRACE_S),
        batch=orjson.dumps([(turn.row, turn.guid) for turn in batch.turns]).decode(),
        calls=progress.calls + 1,
    )
    system = "\n\n".join(filter(None, (job.ask(args), args.prompt)))
    messages = [
        {"role": "system", "content": system},
        {"role": "user", "content": fence(batch)},
    ]
    request = args.options | {"messages": messages, "wants_json": job.wants_json}
    # It names the turns, so that their erasure finds the request.
    request |= {"turns": [turn.guid for turn in batch.turns]}
    return progress, DeferredCall(request, order=job.name)


def _has_budget(args: ExtractionArgs, progress: Progress) -> bool:
    has_tokens = args.budget_tokens is None or progress.tokens < args.budget_tokens
    return has_tokens and progress.calls < args.budget_calls


def _take_batch(
    call: Call, args: ExtractionArgs, job: Job, progress: Progress, now_ms: int
) -> tuple[Progress, Batch | None]:
    table, settings = call.tx.table(ProgressTable), args.settings
    for _ in range(MOST_WINDOWS):
        before = progress.read_to
        progress, waiting = table.take_waiting(
            progress, settings.kind, settings.roles, settings.wants, now_ms
        )
        if waiting:
            return progress, job.take(call, args, waiting)
        if progress.read_to == before:
            break
    return progress, None


def group(waiting: Sequence[Turn]) -> dict[tuple[str, str | None], list[Turn]]:
    """Return the turns by thread and user, in the order of their first turns."""
    groups: dict[tuple[str, str | None], list[Turn]] = {}
    for turn in waiting:
        groups.setdefault((turn.thread, turn.user), []).append(turn)
    return groups


def limit_batch(turns: Sequence[Turn], most: int) -> list[Turn]:
    """Return the first turns that fit into one request; at least one."""
    taken, left = list[Turn](), MAX_BATCH
    for turn in turns[:most]:
        left -= min(turn.length, MAX_TURN)
        if taken and left < 0:
            break
        taken.append(turn)
    return taken


def make_batch(found: Sequence[tuple[int, StoredRecord]], earlier: str = "") -> Batch | None:
    """Return a batch of turns with their rows, None if there is none."""
    turns, views = [], []
    for row, stored in found:
        state = stored.state
        turns.append(Turn(row, state.guid, state.thread or "", state.owner, len(state.content)))
        views.append(_view(state))
    return Batch(turns, views, earlier) if turns else None


def limit_project(batch: Batch | None) -> Batch | None:
    """Return a batch with the turns of the project of the first one."""
    if batch is None:
        return None
    same = [find_project(view) == batch.project for view in batch.views]
    return replace(
        batch, turns=[*compress(batch.turns, same)], views=[*compress(batch.views, same)]
    )


def find_project(view: TurnView) -> str:
    """Return the project that the item of a turn names, "" for none."""
    named = view.item.get(PROJECT) if isinstance(view.item, dict) else None
    if not isinstance(named, str) or text_fault(named):
        return ""
    return named[:MAX_PROJECT]


def _view(state: State) -> TurnView:
    """Return a turn as operations show it, and a damaged one without its item."""
    try:
        return view_turn(state)
    except RecordDamaged:
        return view_turn(state._replace(data=None))


def fence(batch: Batch) -> str:
    """Return the turns as lines of JSON in a fence. `<` is escaped, so that no text can end it."""
    lines = [
        {"n": number, "role": view.role, "at": view.at, "text": shorten(view.content)}
        for number, view in enumerate(batch.views, 1)
    ]
    texts = [orjson.dumps(line).decode() for line in lines]
    parts = [f"<turns>\n{_escape(chr(10).join(texts))}\n</turns>"]
    if batch.earlier:
        parts.insert(0, f"<summary>\n{_escape(orjson.dumps(batch.earlier).decode())}\n</summary>")
    return "\n".join(parts)


def _escape(text: str) -> str:
    return text.replace("<", "\\u003c")


def shorten(text: str) -> str:
    """Return the beginning of a long text."""
    return text if len(text) <= MAX_TURN else f"{text[:MAX_TURN]} [shortened]"


def read_text(answer: str) -> str:
    """Return the text of an answer, without thoughts and a fence of code. Raises UnusableAnswer."""
    text = answer.strip()
    if text.startswith("<think"):
        text = text.partition(THOUGHT_END)[2].strip()
    fenced = FENCE.fullmatch(text)
    text = (fenced[1] if fenced else text).strip()
    if not text:
        raise UnusableAnswer("the model answered without text")
    return text


def is_clean(text: str) -> bool:
    """Return whether a text has no control characters, and can be stored."""
    return not text_fault(text) and not CONTROL.search(text)


def write_through(
    call: Call, name: str, fields: dict[str, Any], if_held: Mapping[str, Any] | None = None
) -> Any:
    """Run an operation in the transaction of the block. Return its output, ReviewPending or
    Dropped.

    A write that a policy holds for review is made with the fields `if_held` in place of those.
    Raises PolicyStop for a write that a policy refuses, and what the operation raises.
    """
    operation, tx = known_operation(name), call.tx
    given = operation.adapter.validate_python(fields)
    versions = tx.records.versions
    act, origins, before = versions.current_act, versions.origins, versions.last_change
    context = make_context(call)
    context = replace(context, origin=origins.current, input_id=origins.input_id)
    try:
        with naming_call(name, lambda: fields):
            return operation.run(tx, given, context)
    except PolicyStop as stop:
        if versions.last_change != before:
            raise
        if if_held and stop.action == REVIEW:
            return write_through(call, name, {**fields, **if_held})
        return settle(stop, operation, given, tx, context)
    finally:
        versions.current_act = act


def count_stopped(written: Written, output: Any) -> bool:
    """Count a write that a policy has stopped. Return whether it was."""
    if isinstance(output, ReviewPending):
        written.add("held")
    elif isinstance(output, Dropped):
        written.add("refused")
    else:
        return False
    return True
