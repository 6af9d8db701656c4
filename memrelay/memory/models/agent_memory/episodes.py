"""Episodes: records of what an agent was asked, did and answered, with a log of steps.

The functions run inside the store's open transaction.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field, ValidationError

from memrelay.memory.engine.filter_sql import Conditions, Given
from memrelay.memory.engine.keyed_table import new_state
from memrelay.memory.engine.store import Store, Transaction
from memrelay.memory.engine.timestamps import Moment, format_time
from memrelay.memory.engine.versions import State, StoredRecord
from memrelay.memory.errors import RecordNotFound
from memrelay.memory.field_descriptions import nested_input
from memrelay.memory.models.agent_memory import EPISODE_KIND, STEP_KIND
from memrelay.memory.models.agent_memory.scopes import (
    GLOBAL,
    MAX_ID_CHARACTERS,
    Deleted,
    DeleteMany,
    GivenId,
    OptionalId,
    make_agent_scope,
)
from memrelay.memory.models.agent_memory.table import EpisodeTable, name_thread
from memrelay.memory.models.agent_memory.user_records import current_id
from memrelay.memory.operations import Context, operation
from memrelay.memory.records.data import as_text, checked, kept_data, parse_data
from memrelay.memory.records.optimistic_locking import check_version
from memrelay.memory.records.paging import Limit, Offset, take_page
from memrelay.memory.records.reading import literal_kind, take_ordered_page
from memrelay.memory.records.record import Record, RecordExtras
from memrelay.memory.records.view import Guid, Reason, Versions, version_of

# Days after which an episode expires, with its steps.
EPISODE_DAYS = 90
MAX_EPISODE_DAYS = 3650
MS_PER_DAY = 86_400_000
MAX_SUMMARY_CHARACTERS = 200
# A longer trigger, output, tool result or text of a step is cut.
MAX_VALUE_BYTES = 24_576
MAX_STEPS = 1000
# For the other fields of the answer.
EPISODE_BYTES = 8192
CUT = "…"
ABANDONED = "abandoned"
Label = Annotated[str, Field(max_length=64)]
Text = Annotated[str, Field(max_length=1 << 20)]
ToolName = Annotated[str, Field(max_length=256)]
StepSort = Literal["message", "action"]


@dataclass(frozen=True, slots=True)
class EpisodeView:
    """An episode."""

    id: str
    """The guid of the episode's record."""
    agent_id: str
    """The agent."""
    user_id: str | None
    """The canonical id of the user."""
    execution_id: str
    """The execution."""
    session_id: str | None
    """The session."""
    workflow_id: str | None
    """The workflow."""
    trigger_type: str
    """The sort of trigger."""
    success: bool
    """Whether the agent did what it was asked; false while it works."""
    error_code: str | None
    """The code of a failure."""
    summary: str | None
    """The summary; null while the agent works."""
    rating: int | None
    """The rating of a person."""
    started_at: Moment
    ended_at: Moment | None
    """When the episode ended; null while the agent works."""
    duration_ms: int | None
    """The time from the begin to the end."""
    created_at: Moment
    expires_at: Moment | None
    version: str
    """Changes with every edit; an edit can require it."""


def view_state(tx: Transaction, state: State) -> "EpisodeView":
    """Return the view of a stored episode. Raises RecordDamaged."""
    return view_episode(state.record, state.extras)


def view_episode(record: Record, extras: RecordExtras) -> EpisodeView:
    """Return the view of an episode. Raises RecordDamaged."""
    data = kept_data(record, extras)
    ended_at = data.get("ended_at")
    return EpisodeView(
        record.guid,
        record.scope.removeprefix("agent:"),
        extras.owner,
        extras.key or record.guid,
        data.get("session_id"),
        data.get("workflow_id"),
        data.get("trigger_type", ""),
        bool(data.get("success")),
        data.get("error_code"),
        record.content or None,
        data.get("rating"),
        format_time(record.created_at),
        None if ended_at is None else format_time(ended_at),
        data.get("duration_ms"),
        format_time(record.created_at),
        None if record.expires_at is None else format_time(record.expires_at),
        version_of(record, extras),
    )


def fetch_episode(tx: Transaction, guid: str) -> StoredRecord:
    """Return an episode. Raises RecordNotFound."""
    if (stored := tx.table(EpisodeTable).by_guid(guid)) is None:
        raise RecordNotFound(f"no episode has the id {guid!r}; episodes.list lists them")
    return stored


@dataclass(frozen=True, slots=True)
class NewEpisode:
    """An episode that begins."""

    agent_id: GivenId
    """The agent, such as workflow:UID."""
    execution_id: Annotated[str, Field(max_length=MAX_ID_CHARACTERS)] = ""
    """The execution. A second call with the same one returns the same episode. By default the
    episode's own id."""
    user_id: OptionalId = ""
    """The canonical id of the user."""
    session_id: OptionalId = ""
    """The session."""
    workflow_id: OptionalId = ""
    """The workflow."""
    trigger_type: Label = "manual"
    """The sort of trigger, such as chat or telegram."""
    trigger_input: Any = None
    """The input: any JSON. More than 24,576 bytes are cut."""
    episode_days: Annotated[int, Field(ge=1, le=MAX_EPISODE_DAYS)] = EPISODE_DAYS
    """Days after which the episode and its steps expire."""


@dataclass(frozen=True, slots=True)
class BegunEpisode:
    """An episode that has begun."""

    id: str
    """The id of the episode."""


@operation("episodes.begin", access="write", mutates=True, store="memories", any_store=True)
def begin(tx: Transaction, request: NewEpisode, context: Context) -> BegunEpisode:
    """Begin an episode. An execution that began before keeps its episode."""
    return BegunEpisode(begin_episode(tx, request, context))


def begin_episode(tx: Transaction, request: NewEpisode, context: Context) -> str:
    """Begin an episode and return its guid. An execution that began already has the same guid."""
    scope, guid = make_agent_scope(request.agent_id), context.new_guid()
    key = request.execution_id or guid
    if (stored := tx.table(EpisodeTable).find_to_write(scope, key)) is not None:
        return stored.guid
    data = {
        "trigger_type": request.trigger_type,
        "trigger_input": bounded(request.trigger_input),
        "workflow_id": request.workflow_id or None,
        "session_id": request.session_id or None,
        "success": False,
    }
    expires_at = context.now_ms + request.episode_days * MS_PER_DAY
    owner = current_id(tx, request.user_id) or None
    new = new_state(guid, EPISODE_KIND, context.now_ms, context.actor)._replace(
        scope=scope, key=key, owner=owner, data=_packed(data), expires_at=expires_at
    )
    tx.table(EpisodeTable).insert(new)
    return guid


def bounded(value: Any) -> Any:
    """Return a JSON value that `data` can hold. One that is too long becomes a text and is cut."""
    try:
        checked({"value": value})
        is_short = len(orjson.dumps(value)) <= MAX_VALUE_BYTES
    except ValidationError:
        is_short = False
    return value if is_short else _cut(_to_text(value), MAX_VALUE_BYTES)


def _to_text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _cut(text: str, most_bytes: int) -> str:
    """Return the beginning of a text that takes at most `most_bytes` as JSON."""
    text = text.encode(errors="replace").decode()
    if len(orjson.dumps(text)) <= most_bytes:
        return text
    room, size = most_bytes - len(orjson.dumps(CUT)), 0
    for index, character in enumerate(text):
        size += len(orjson.dumps(character)) - 2
        if size > room:
            return text[:index] + CUT
    return text


def _packed(data: Mapping[str, Any]) -> str | None:
    return as_text({name: value for name, value in data.items() if value is not None})


@nested_input
@dataclass(frozen=True, slots=True)
class NewStep:
    """A step of an episode: a message of the conversation, or an action of the agent."""

    sort: StepSort = "message"
    """message or action."""
    text: Text = ""
    """The text of the message, or a description of the action."""
    role: Label = ""
    """The role of the speaker, such as user or assistant."""
    tool: ToolName = ""
    """The tool that was called."""
    result: Any = None
    """The result of the tool: any JSON."""


@dataclass(frozen=True, slots=True)
class AddStep:
    """A step to append: a message of the conversation, or an action of the agent."""

    id: Guid
    """The id of the episode."""
    sort: StepSort = "message"
    """message or action."""
    text: Text = ""
    """The text of the message, or a description of the action."""
    role: Label = ""
    """The role of the speaker, such as user or assistant."""
    tool: ToolName = ""
    """The tool that was called."""
    result: Any = None
    """The result of the tool: any JSON."""


@dataclass(frozen=True, slots=True)
class AddedStep:
    """A step that was appended."""

    seq: int
    """Its position in the log, from 0."""


@operation("episodes.add", access="append", mutates=True, store="memories", any_store=True)
def add(tx: Transaction, request: AddStep, context: Context) -> AddedStep:
    """Append a message or an action to the log of an episode.

    Raises RecordNotFound: when the episode does not exist.
    """
    return AddedStep(_insert_step(tx, fetch_episode(tx, request.id).state, request, context))


def _insert_step(tx: Transaction, episode: State, step: NewStep | AddStep, context: Context) -> int:
    data = {"sort": step.sort, "role": step.role or None, "tool": step.tool or None}
    if step.result is not None:
        data["result"] = bounded(step.result)
    new = new_state(context.new_guid(), STEP_KIND, context.now_ms, context.actor)._replace(
        scope=episode.scope,
        owner=episode.owner,
        expires_at=episode.expires_at,
        thread=name_thread(episode.guid),
        data=_packed(data),
        content=_cut(step.text, MAX_VALUE_BYTES),
    )
    return tx.table(EpisodeTable).add_step(new).seq or 0


@dataclass(frozen=True, slots=True)
class CompletedEpisode:
    """The end of an episode."""

    id: Guid
    """The id of the episode."""
    success: bool
    """Whether the agent did what it was asked."""
    final_output: Any = None
    """The answer: any JSON. More than 24,576 bytes are cut."""
    steps: Annotated[tuple[NewStep, ...], Field(max_length=MAX_STEPS)] | None = None
    """The whole log, which replaces the steps added before. By default these stay."""
    summary: Text = ""
    """A summary, cut to 200 characters. By default `question → answer`."""
    error_code: Label = ""
    """A code of the failure."""
    error_message: Text = ""
    """The description of the failure."""


@operation("episodes.complete", access="write", mutates=True, store="memories", any_store=True)
def complete_episode(tx: Transaction, request: CompletedEpisode, context: Context) -> EpisodeView:
    """End an episode with its outcome. A log in the call replaces the earlier steps.

    Raises RecordNotFound: when the episode does not exist.
    """
    stored = fetch_episode(tx, request.id)
    episode = stored.state
    if request.steps is not None:
        tx.table(EpisodeTable).clear_steps(stored.guid)
        for step in request.steps:
            _insert_step(tx, episode, step, context)
    data = parse_data(episode.data, episode.guid)
    output = bounded(request.final_output)
    changes = {
        "final_output": output,
        "success": request.success,
        "error_code": request.error_code or None,
        "error_message": _cut(request.error_message, MAX_VALUE_BYTES // 4) or None,
        "ended_at": context.now_ms,
        "duration_ms": max(context.now_ms - episode.created_at, 0),
    }
    summary = request.summary or _summary(data.get("trigger_input"), output)
    after = episode._replace(content=summary[:MAX_SUMMARY_CHARACTERS], data=_packed(data | changes))
    ended = tx.table(EpisodeTable).change(stored, after, event="episode.completed")
    return view_episode(ended.record, ended.extras)


def _summary(question: Any, answer: Any) -> str:
    """Return `question → answer` on one line, "" without both."""
    texts = (" ".join(_to_text(one).split()) for one in (question, answer) if one is not None)
    return " → ".join(text for text in texts if text)


def end_abandoned(store: Store, uid: str, running: Collection[str], now_ms: int) -> None:
    """End the episodes that `open_episodes` returns, with the code `abandoned`."""
    if not open_episodes(store, uid, running):
        return
    with store.transaction() as tx:
        tx.records.set_actor(now_ms, "")
        for stored in open_episodes(tx, uid, running):
            ended = CompletedEpisode(
                stored.guid, False, error_code=ABANDONED, error_message="the turn was abandoned"
            )
            complete_episode(tx, ended, Context(now_ms, "", 0, lambda: ""))


def open_episodes(tx: Transaction, uid: str, running: Collection[str]) -> list[StoredRecord]:
    """Return the episodes of deferred calls of a pipeline that have no end and are not `running`.

    Episodes of other programs, whose execution is no deferred call, are left out.
    """
    open_now = tx.table(EpisodeTable).open_from(f"{uid}/", f"{uid}0")
    return [stored for stored in open_now if stored.state.key not in running]


@dataclass(frozen=True, slots=True)
class GetEpisode:
    """The episode to return, and the page of its log."""

    id: Guid
    """The id of the episode."""
    limit: Limit = 1000
    """The maximum number of steps. A page of long steps may have fewer."""
    offset: Offset = 0
    """The number of steps to skip."""


@dataclass(frozen=True, slots=True)
class StepView:
    """A step of an episode."""

    id: str
    """The guid of the step's record."""
    seq: int
    """The position in the log."""
    sort: str
    """message or action."""
    role: str | None
    """The role of the speaker."""
    text: str
    """The text."""
    tool: str | None
    """The tool that was called."""
    result: Any
    """The result of the tool."""
    created_at: Moment


@dataclass(frozen=True, slots=True)
class WholeEpisode:
    """An episode with its log."""

    episode: EpisodeView
    """The episode."""
    trigger_input: Any
    """The input."""
    final_output: Any
    """The answer."""
    error_message: str | None
    """The description of the failure."""
    feedback: str | None
    """The comment of a person."""
    steps: tuple[StepView, ...]
    """The log: messages and actions in their order."""
    total_steps: int
    """The number of steps on all pages."""


@operation("episodes.get", access="read", mutates=False, store="memories", any_store=True)
def get(tx: Transaction, request: GetEpisode, context: Context) -> WholeEpisode:
    """Return an episode with its input, its output and a page of its log.

    Raises RecordNotFound: when the episode does not exist.
    """
    state = fetch_episode(tx, request.id).state
    data = parse_data(state.data, state.guid)
    log = tx.table(EpisodeTable).steps(state.guid, request.limit, request.offset)
    most = context.result_bytes - len(state.data or "") - EPISODE_BYTES
    steps, _ = take_page([view_step(one) for one in log], request.limit, most)
    return WholeEpisode(
        view_episode(state.record, state.extras),
        data.get("trigger_input"),
        data.get("final_output"),
        data.get("error_message"),
        data.get("feedback"),
        tuple(steps),
        tx.table(EpisodeTable).count_steps(state.guid),
    )


def view_step(stored: StoredRecord) -> StepView:
    """Return the view of a stored step. Raises RecordDamaged."""
    state = stored.state
    data = parse_data(state.data, state.guid)
    return StepView(
        state.guid,
        state.seq or 0,
        data.get("sort", "message"),
        data.get("role"),
        state.content,
        data.get("tool"),
        data.get("result"),
        format_time(state.created_at),
    )


@dataclass(frozen=True, slots=True)
class ListEpisodes:
    """The episodes to list, and the page."""

    agent_id: OptionalId = ""
    """Only episodes of this agent."""
    user_id: OptionalId = ""
    """Only episodes of the user with this canonical id."""
    session_id: OptionalId = ""
    """Only episodes of this session."""
    workflow_id: OptionalId = ""
    """Only episodes of this workflow."""
    success: bool | None = None
    """Only successful episodes, or only the others."""
    limit: Limit = 50
    """The maximum number of episodes."""
    offset: Offset = 0
    """The number of episodes to skip."""


@dataclass(frozen=True, slots=True)
class EpisodePage:
    """A page of episodes."""

    items: tuple[EpisodeView, ...]
    total: int
    """The number of episodes on all pages."""


@operation("episodes.list", access="read", mutates=False, store="memories", any_store=True)
def list_episodes(tx: Transaction, request: ListEpisodes, context: Context) -> EpisodePage:
    """List episodes in pages, the newest first. Of equal times, the later arrival is first."""
    request = replace(request, user_id=current_id(tx, request.user_id))
    conditions = Conditions(given=literal_kind(EPISODE_KIND, _filter(request)))
    window = (request.limit, request.offset)
    records, total = take_ordered_page(tx, conditions, ("created_at", "desc"), window, context)
    return EpisodePage(tuple(view_episode(*one) for one in records), total)


def _filter(request: ListEpisodes) -> Given | None:
    """Return the conditions that are set, None if none is."""
    columns = {
        "r.scope": request.agent_id and make_agent_scope(request.agent_id),
        "r.owner": request.user_id,
        "json_extract(r.data, '$.session_id')": request.session_id,
        "json_extract(r.data, '$.workflow_id')": request.workflow_id,
        "json_extract(r.data, '$.success')": request.success,
    }
    equal = {name: value for name, value in columns.items() if value not in ("", None)}
    if not equal:
        return None
    return Given(" AND ".join(f"{name} = ?" for name in equal), tuple(equal.values()), {})


def recent_episodes(tx: Transaction, agent_id: str, user: str, limit: int) -> list[EpisodeView]:
    """Return the newest episodes of a user first. The agent "" or `global` covers every agent."""
    scope = "" if agent_id in ("", GLOBAL) else make_agent_scope(agent_id)
    newest = tx.table(EpisodeTable).newest(scope, current_id(tx, user), limit)
    return [view_episode(stored.state.record, stored.state.extras) for stored in newest]


@dataclass(frozen=True, slots=True)
class RateEpisode:
    """A rating."""

    id: Guid
    """The id of the episode."""
    rating: Annotated[int, Field(ge=-10, le=10)] | None = None
    """The rating, for example 1 to 5, or -1 and 1 for thumbs."""
    feedback: Annotated[str, Field(max_length=4096)] = ""
    """A comment."""
    reason: Reason = ""
    """The reason, kept in the history."""
    if_version: Versions = ()
    """Change only if the episode has one of these versions."""


@operation("episodes.rate", access="write", mutates=True, store="memories", any_store=True)
def rate(tx: Transaction, request: RateEpisode, context: Context) -> EpisodeView:
    """Store a rating and a comment. Missing fields stay as before.

    Raises RecordNotFound: when the episode does not exist.
    Raises VersionConflict: when the episode has another version.
    """
    stored = fetch_episode(tx, request.id)
    state = stored.state
    check_version(state.record, state.extras, request.if_version)
    changes: dict[str, Any] = {}
    if request.rating is not None:
        changes["rating"] = request.rating
    if request.feedback:
        changes["feedback"] = request.feedback
    data = _packed(parse_data(state.data, state.guid) | changes)
    rated = tx.table(EpisodeTable).change(stored, state._replace(data=data))
    return view_episode(rated.record, rated.extras)


@operation("episodes.delete_many", access="delete", mutates=True, store="memories", any_store=True)
def delete_many(tx: Transaction, request: DeleteMany, context: Context) -> Deleted:
    """Delete episodes with their steps. Unknown ids are ignored. records.restore can undo it."""
    table, deleted = tx.table(EpisodeTable), 0
    for guid in dict.fromkeys(request.ids):
        if (stored := table.by_guid(guid)) is not None:
            table.delete_with_steps(stored)
            deleted += 1
    return Deleted(deleted)
