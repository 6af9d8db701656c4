"""What routes written by hand answer in JSON, for the documents; the operations have dataclasses of
their own."""

from typing import Any, Generic, NotRequired, TypeVar

from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

Item = TypeVar("Item")
whole = with_config(ConfigDict(extra="forbid"))  # what is told has these members and no others


@whole
class Page(TypedDict, Generic[Item]):
    """A part of a list; the next begins at `next_cursor`, which is null on the last."""

    items: list[Item]
    next_cursor: str | None
    total: int


@whole
class Pipeline(TypedDict):
    """A version of a pipeline."""

    pipeline_uid: str
    name: str
    hash: str
    version: int
    deployed_at: str


@whole
class PipelineShown(Pipeline):
    """With its bundle."""

    bundle: dict[str, Any]


@whole
class PipelineVersion(Pipeline):
    """One of those that there were."""

    active: bool


@whole
class BundleFault(TypedDict):
    """What is wrong in a bundle, and where."""

    pointer: str
    rule: str
    suggestion: str
    severity: str


@whole
class PipelineDeployed(Pipeline):
    """What was put in service: `served` tells whether a worker runs this version already."""

    served: bool
    warnings: list[BundleFault]


@whole
class Rollback(TypedDict):
    """To which version; without one, to the last with another bundle."""

    version: NotRequired[int]


@whole
class Login(TypedDict):
    """A key, and the page to go on to."""

    key: str
    next: NotRequired[str]


@whole
class Entered(TypedDict):
    """A message that is kept, and runs."""

    message_id: str


@whole
class Settled(Entered):
    """What it led to; where that is nothing, the reason."""

    results: list[dict[str, Any]]
    reason: NotRequired[str]


@whole
class LogItem(TypedDict):
    """A message of a swarm's log."""

    cursor: str
    mid: str
    message: Any


@whole
class Letter(TypedDict):
    """A dead letter."""

    pipeline_uid: str
    id: str
    swarm: str
    agent: str
    error: str
    attempts: int
    bundle: str
    buried_at: str
    bytes: int


@whole
class LetterShown(Letter):
    """With all that came; `data` is text or base64, as `encoding` says."""

    producer_id: str
    hop: str
    encoding: str
    data: str


@whole
class Live(TypedDict):
    """The process answers."""

    live: bool


@whole
class Ready(TypedDict):
    """Whether a message would be taken; each check is "ok" or what is wrong."""

    ready: bool
    checks: dict[str, str]
    paused: NotRequired[dict[str, str]]


@whole
class Durability(TypedDict):
    """The server's append-only file."""

    appendonly: str
    appendfsync: str
    meaning: str


@whole
class WorkerStatus(TypedDict):
    """A worker that lives."""

    name: str
    started_at: int
    pipelines: list[str]
    silent_s: float  # since it was heard last, which it is every 2 s
    loop_lag_ms: float
    groups_recreated: int


_Taken = TypedDict("_Taken", {"in": int})  # no name that a class may have


@whole
class PipelineStatus(_Taken):
    """A pipeline in service; docs/operations.md tells what the figures are."""

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
    done: int
    dead: int
    rate: float
    paused: str
    handler_s: float
    duplicates: int
    retried: int
    waiting: int
    pauses: int
    wal_bytes: int
    outbox_bytes: int
    vectors_todo: int
    vectors_fault: str


@whole
class Status(TypedDict):
    """What runs; `bus` and `listeners` for who sees all pipelines."""

    bus: NotRequired[str]
    listeners: NotRequired[int]
    durability: Durability
    workers: list[WorkerStatus]
    pipelines: list[PipelineStatus]
