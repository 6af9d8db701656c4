"""JSON shapes of handwritten routes, for the OpenAPI document.

The operations declare their own dataclasses.
"""

from typing import Annotated, Any, Generic, Literal, NotRequired, TypeVar

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict  # required by pydantic before Python 3.12

from memrelay.memory.control.keys import SCOPES

Item = TypeVar("Item")
# Allows no other members.
exact = with_config(ConfigDict(extra="forbid"))


@exact
class Reference(TypedDict):
    """The ids and the version of what was written, for a key without the scope read."""

    guid: NotRequired[str]
    id: NotRequired[str]
    memory_id: NotRequired[str]
    version: NotRequired[str]
    action: NotRequired[str]
    created: NotRequired[bool]
    won: NotRequired[bool]
    canonical_id: NotRequired[str]
    is_new_user: NotRequired[bool]


@exact
class Page(TypedDict, Generic[Item]):
    """A page of a list. `next_cursor` is null on the last page."""

    items: list[Item]
    next_cursor: str | None
    total: int


@exact
class Pipeline(TypedDict):
    """The active version of a pipeline."""

    pipeline_uid: str
    name: str
    hash: str
    version: int
    deployed_at: str


@exact
class PipelineDetail(Pipeline):
    """A pipeline with its bundle."""

    bundle: dict[str, Any]


@exact
class PipelineVersion(Pipeline):
    """A version of a pipeline."""

    active: bool


@exact
class WebhookRequest(TypedDict):
    """A request to a webhook. `verdict` is signed, token, key, network or none.

    `outcome` is accepted, refused, handshake or ignored. `message_id` is the cursor of the message,
    "" if none was stored.
    """

    at: str
    status: int
    method: str
    outcome: str
    verdict: str
    event: str
    delivery_id: str
    message_id: str
    reason: str
    headers: dict[str, str]


@exact
class AgentWebhook(TypedDict):
    """An agent's webhook. `secrets` and `token` are references, not values."""

    agent: str
    url: str
    sender: str
    secrets: list[str]
    token: str
    networks: list[str]
    requests: list[WebhookRequest]


@exact
class BundleFault(TypedDict):
    """A fault in a bundle. `pointer` is its JSON pointer."""

    pointer: str
    rule: str
    suggestion: str
    severity: str


@exact
class BundleFaultLine(BundleFault):
    """A fault in the text of a bundle. `line` counts from 1."""

    line: int


@exact
class BundleCheck(TypedDict):
    """The result of a check. `valid` is whether the bundle can be deployed: it has no errors."""

    valid: bool
    faults: list[BundleFaultLine]


@exact
class PipelineDeployed(Pipeline):
    """A deployed pipeline. `served` is whether a worker already serves this version."""

    served: bool
    warnings: list[BundleFault]


@with_config(ConfigDict(extra="allow"))
class NewBundle(TypedDict):
    """A bundle. docs/bundle.schema.json describes all of its fields."""

    agents: Annotated[list[dict[str, Any]], Field(min_length=1)]


@exact
class Rollback(TypedDict):
    """The version to roll back to. Without it, the latest version with another bundle."""

    version: NotRequired[Annotated[int, Field(ge=1)] | None]


@exact
class Login(TypedDict):
    """A key, and the page to show after the login."""

    key: str
    next: NotRequired[str]


@exact
class GoldenQuestions(TypedDict):
    """Golden questions as YAML."""

    questions: str


@exact
class CatalogBlock(TypedDict):
    """A block for the palette of an editor. `agent_class` is the class of an agent with it.

    `is_async` blocks are async functions. `is_own` blocks do not belong to Memrelay, and
    `needs_service` blocks call a model or another service.
    """

    name: str
    group: Literal["relay", "memory", "recall", "model", "transform", "send", "own"]
    agent_class: str
    summary: str
    description: str
    args_schema: dict[str, Any]
    is_async: bool
    is_own: bool
    needs_service: bool


@exact
class BlockCatalog(TypedDict):
    """All blocks that the server can load."""

    items: list[CatalogBlock]


@exact
class PipelineTemplate(TypedDict):
    """A template for a new pipeline. `summary` is one sentence."""

    name: str
    title: str
    summary: str
    bundle: dict[str, Any]


@exact
class PipelineTemplates(TypedDict):
    """All templates, in the order in which an editor shows them."""

    items: list[PipelineTemplate]


@exact
class SecretToStore(TypedDict):
    """A secret to store. `value` is one line. Without it, the server makes a random secret: a
    token, or `whsec_<base64>` for the form `standard`. `replace` allows to overwrite a secret.
    """

    value: NotRequired[str]
    form: NotRequired[Literal["text", "standard"]]
    replace: NotRequired[bool]


@exact
class SecretStored(TypedDict):
    """The stored secret: what a bundle names it, and its value if the server has made it."""

    reference: str
    value: NotRequired[str]


@exact
class PatternToTest(TypedDict):
    """A pattern (RE2), a JMESPath expression or a template, and the text to try it on.

    `flags` of a pattern are any of `i`, `s` and `m`.
    """

    kind: Literal["regex", "jmespath", "template"]
    pattern: str
    text: str
    flags: NotRequired[str]


@exact
class PatternTested(TypedDict):
    """The outcome. `valid` is whether the pattern is valid, and `fault` what is wrong, "" for
    nothing. `result` of `regex` is `{matched, groups, spans}` of the first match: the texts of its
    groups by number and name, and the start and end of the match and of each group in characters.
    `result` of `jmespath` is a JSON value, and that of `template` a text.
    """

    valid: bool
    fault: str
    result: Any


@exact
class MessageToTry(TypedDict):
    """A bundle, and a message for it: a text on `swarm` from `user`, or the body of a webhook to
    `agent`, by its alias. `data` has headers of the webhook by name, such as X-GitHub-Event.

    `stores` is `empty`, or `copy` for a copy of the pipeline's own stores.
    """

    bundle: dict[str, Any]
    text: str
    swarm: NotRequired[str]
    agent: NotRequired[str]
    user: NotRequired[str]
    data: NotRequired[dict[str, Any]]
    stores: NotRequired[Literal["empty", "copy"]]


_Sent = TypedDict("_Sent", {"swarm": str, "from": str, "text": str})


@exact
class TriedMessage(_Sent):
    """A message that a block would publish."""


@exact
class TriedChange(TypedDict):
    """A record that a block would change."""

    store: str
    guid: str
    kind: str
    action: Literal["created", "updated", "deleted", "merged", "skipped"]
    content: str
    key: str


@exact
class TriedRecord(TypedDict):
    """A record that a block found."""

    store: str
    guid: str
    content: str


@exact
class TriedRequest(TypedDict):
    """What would leave. `target` is a URL, a model, an endpoint or a public swarm."""

    what: Literal["http", "model", "webhook", "embedder", "public swarm"]
    target: str
    body: str


_Received = TypedDict("_Received", {"from": str})


@exact
class TriedStep(_Received):
    """One call of a block. `parent` is the step whose message it received, null for the first.

    `fault` is why it failed, and `not_run` why its block was not run, "" if it was. Texts are cut
    at 10,000 characters.
    """

    id: int
    parent: int | None
    agent: str
    block: str
    swarm: str
    input: str
    output: list[TriedMessage]
    stored: list[TriedChange]
    found: list[TriedRecord]
    sends: list[TriedRequest]
    fault: str
    not_run: str


@exact
class TriedFailure(TypedDict):
    """A message that would become a dead letter. `agent` is "" for one to a swarm."""

    agent: str
    reason: str


@exact
class MessageTried(TypedDict):
    """What a bundle would do with a message. `status` is failed with a dead letter, and stopped at
    a limit: 2 s of work, 100 messages, or 8 MiB. The steps are in the order in which they ran.
    """

    status: Literal["done", "failed", "stopped"]
    reason: str
    took_ms: float
    steps: list[TriedStep]
    published: list[TriedMessage]
    dead_letters: list[TriedFailure]
    notes: list[str]


@exact
class TextToTest(TypedDict):
    """The fields of a record that policies are tested with."""

    content: str
    kind: NotRequired[str]
    source: NotRequired[str]
    store: NotRequired[str]


@exact
class ProposalToApprove(TypedDict):
    """A write that waits for review. `version` is that of the proposal as it was read."""

    guid: str
    version: NotRequired[str]


@exact
class AcceptedMessage(TypedDict):
    """A message that is stored and will run."""

    message_id: str


@exact
class SettledMessage(AcceptedMessage):
    """The results of a message. `reason` explains why there are none, `hint` corrects a command."""

    results: list[dict[str, Any]]
    reason: NotRequired[str]
    hint: NotRequired[str]


@exact
class LogItem(TypedDict):
    """A message in a swarm's log."""

    cursor: str
    mid: str
    message: Any


@exact
class DeadLetterItem(TypedDict):
    """A dead letter in a list."""

    pipeline_uid: str
    id: str
    swarm: str
    agent: str
    error: str
    attempts: int
    bundle: str
    buried_at: str
    bytes: int


@exact
class DeadLetterDetail(DeadLetterItem):
    """A dead letter with its message. `data` is text or base64, as `encoding` states."""

    producer_id: str
    hop: str
    encoding: str
    data: str


# `from` is a keyword, so a class cannot declare it.
_Sender = TypedDict("_Sender", {"from": str})


@exact
class TracedMessage(_Sender):
    """A message that another one led to.

    `parent` is the mid of the message that it answers. `agent` and `block` are "" if the sender is
    no agent of the pipeline. `text` has at most 2,000 of its `characters`.
    """

    mid: str
    parent: str | None
    hop: int
    swarm: str
    agent: str
    block: str
    text: str
    characters: int
    published_at: str


@exact
class TracedRecord(TypedDict):
    """A record that a message has written. `content` has at most 2,000 of its `characters`."""

    guid: str
    store: str
    kind: str
    scope: str
    content: str
    characters: int
    agent: str
    block: str
    created_at: str
    updated_at: str
    deleted: bool


@exact
class TracedWaiting(TypedDict):
    """A message that waits because of its agent's `wf_flow`."""

    id: str
    agent: str
    wakes_at: str


@exact
class TimelineStep(TypedDict):
    """A part of the time of a message. `start_ms` counts from its arrival.

    `kind` is wait, run, commit, publish, call, pause or delivery. `agent` is a name.
    """

    kind: str
    what: str
    start_ms: float
    took_ms: float
    agent: str
    block: str
    detail: str


@exact
class MessageTrace(TypedDict):
    """What one message led to. `complete` is false if something may be missing.

    `took_ms` is the time from the arrival to the end of the timeline, and `slowest` a sentence
    about its longest part.
    """

    entry: str
    said: list[TracedMessage]
    records: list[TracedRecord]
    dead_letter: DeadLetterItem | None
    waiting: list[TracedWaiting]
    timeline: list[TimelineStep]
    took_ms: float
    slowest: str
    complete: bool


@exact
class FoundMessage(_Sender):
    """A message that a search found. `state` is processed, waiting, parked, failed or send_failed.

    `entry` is the message whose trace has it, empty for one of another pipeline. `reason` and
    `dead_letter` belong to a failed message; `reason` also to the answer of a failed request.
    `took_ms` is the time from the arrival of the first message, null if it is not known.
    """

    at: str
    state: str
    entry: str
    mid: str
    swarm: str
    agent: str
    text: str
    characters: int
    reason: str
    dead_letter: str | None
    took_ms: int | None


@exact
class FoundMessages(TypedDict):
    """A part of the messages that match. `looked` messages were read, the last one of `oldest_at`.

    `next_cursor` is null at the end.
    """

    items: list[FoundMessage]
    next_cursor: str | None
    looked: int
    oldest_at: str | None


@exact
class ApiKey(TypedDict):
    """A key without its secret. A time is null for never."""

    id: str
    name: str
    scopes: list[str]
    pipelines: list[str]
    created_at: str
    expires_at: str | None
    revoked_at: str | None
    in_force: bool
    # For a grant to an OAuth client: the id of the user's key, and the id of the client.
    parent: str | None
    client: str | None


@exact
class ApiKeyCreated(ApiKey):
    """A new key. `key` is its text. `is_first`: HTTP requires a key from now on."""

    key: str
    is_first: bool
    notes: list[str]


@exact
class NewApiKey(TypedDict):
    """A key to create. `pipelines` are uids or names, or `*`. `expires` is 90d, 12h or never."""

    name: Annotated[str, Field(json_schema_extra={"minLength": 1, "maxLength": 100})]
    scopes: Annotated[
        list[Annotated[str, Field(json_schema_extra={"enum": list(SCOPES)})]],
        Field(json_schema_extra={"minItems": 1}),
    ]
    pipelines: Annotated[list[str], Field(json_schema_extra={"minItems": 1})]
    expires: NotRequired[str | None]
    allow_undeployed: NotRequired[bool]


@exact
class InputReplay(TypedDict):
    """Kept inputs to run again. `since` and `until` are RFC 3339 or Unix ms, and `filter` is
    JMESPath. By default, all inputs run under their idempotency keys; `as_new` gives them new ones.
    No input runs twice with the same `key`.
    """

    since: NotRequired[str]
    until: NotRequired[str]
    agent: NotRequired[str]
    filter: NotRequired[str]
    as_new: NotRequired[bool]
    dry_run: NotRequired[bool]
    key: NotRequired[str]
    limit: NotRequired[Annotated[int, Field(ge=1, le=1000)]]
    cursor: NotRequired[str]


@exact
class ReplayedInputs(TypedDict):
    """A page of a replay: its key, the number of its inputs, and where the next page begins."""

    key: str
    replayed: int
    next_cursor: str | None


@exact
class Live(TypedDict):
    """The process answers."""

    live: bool


@exact
class Ready(TypedDict):
    """Whether messages can be accepted. Each check is "ok" or the reason why not."""

    ready: bool
    checks: dict[str, str]
    paused: NotRequired[dict[str, str]]


@exact
class Durability(TypedDict):
    """The server's settings for its append-only file, and their meaning."""

    appendonly: str
    appendfsync: str
    meaning: str


@exact
class Storage(TypedDict):
    """Memory and disk space in bytes. `last_backup_at` is Unix ms, 0 without a backup."""

    bus_memory_bytes: int
    bus_max_memory_bytes: int
    bus_aof_bytes: int
    bus_replicas: int
    postgres_bytes: int
    disk_free_bytes: int
    last_backup_at: int


@exact
class Latency(TypedDict):
    """A histogram. The last count has no bound; `sum_s` is the sum of the latencies."""

    bounds_s: list[float]
    counts: list[int]
    sum_s: float


@exact
class WorkerStatus(TypedDict):
    """A running worker. `silent_s` is the time since its last heartbeat, sent every 2 s."""

    name: str
    started_at: int
    pipelines: list[str]
    silent_s: float
    loop_lag_ms: float
    groups_recreated: int
    latency: NotRequired[dict[str, Latency]]
    malformed: NotRequired[int]


@exact
class EndpointTrouble(TypedDict):
    """An endpoint that is failing or switched off. `is_paused`: a user switched it off."""

    id: str
    url: str
    disabled: str
    is_paused: bool
    failing_since: str | None
    last_answer: str


@exact
class DeliveryStatus(TypedDict):
    """The deliveries of a pipeline with endpoints. `tries`, `delivered` and `duration` count since
    the owner started. `failed` are those of the last 30 days, `trouble` has at most 5 endpoints.
    """

    endpoints: int
    waiting: int
    failed: int
    failing: int
    off: int
    tries: int
    delivered: int
    duration: Latency
    trouble: list[EndpointTrouble]


# `in` is a keyword, so a class cannot declare it.
_InputCount = TypedDict("_InputCount", {"in": int})


@exact
class PipelineStatus(_InputCount):
    """An active pipeline. docs/operations.md explains the figures."""

    pipeline_uid: str
    name: str
    hash: str
    version: int
    owner: str | None
    lag: int
    oldest_s: float
    dead_letters: int
    gaps: int
    deaf_s: float
    epoch: int
    done: int
    dead: int
    rate: float
    paused: str
    handler_s: float
    duplicates: int
    changes: int
    searches: int
    retried: int
    failed_sends: int
    waiting: int
    deferred_calls: int
    pauses: int
    store_bytes: int
    wal_bytes: int
    outbox_bytes: int
    vectors_todo: int
    vectors_fault: str
    erasure_pending: bool
    erasure_fault: str
    deliveries: NotRequired[DeliveryStatus]


@exact
class Status(TypedDict):
    """The current status. Callers that see all pipelines also get the optional fields."""

    bus: NotRequired[str]
    listeners: NotRequired[int]
    durability: Durability
    storage: NotRequired[Storage]
    workers: list[WorkerStatus]
    pipelines: list[PipelineStatus]


@exact
class FigureMark(TypedDict):
    """An event: `deploy`, `restart` or `backup`. `subject` says of what, "" if it is hidden."""

    at: str
    kind: str
    subject: str


# `from` is a keyword, so a class cannot declare it.
_Since = TypedDict("_Since", {"from": str})


@exact
class RecordedFigures(_Since):
    """Recorded figures. The lists in `figures` have a value for each time in `at`.

    `done`, `dead`, `changes`, `searches`, `delivered`, `undelivered`, `unsent` (failed sends),
    `refused` (refused webhooks) and `seconds` are counts and
    times of the step; the others are its highest value, and of `disk_free_bytes` its lowest.
    """

    span: str
    step_s: int
    at: list[str]
    until: str
    figures: dict[str, list[float | None]]
    normal: dict[str, float]
    marks: list[FigureMark]
