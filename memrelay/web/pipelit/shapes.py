"""JSON shapes of Pipelit's routes, for the OpenAPI document. The operations validate the input."""

from typing import Literal

from pydantic import JsonValue
from typing_extensions import TypedDict  # required by pydantic before Python 3.12

from memrelay.web.openapi.shapes import exact


@exact
class Fact(TypedDict):
    """A fact."""

    id: str
    scope: str
    agent_id: str | None
    user_id: str | None
    key: str
    value: JsonValue
    fact_type: str
    confidence: float
    times_confirmed: int
    access_count: int
    created_at: str
    updated_at: str


@exact
class Episode(TypedDict):
    """An episode without its steps."""

    id: str
    agent_id: str
    user_id: str | None
    trigger_type: str
    success: bool
    error_code: str | None
    summary: str | None
    started_at: str
    ended_at: str | None
    duration_ms: int | None
    created_at: str


@exact
class Procedure(TypedDict):
    """A procedure without its content."""

    id: str
    agent_id: str
    name: str
    description: str
    procedure_type: str
    times_used: int
    times_succeeded: int
    times_failed: int
    success_rate: float
    is_active: bool
    created_at: str


@exact
class User(TypedDict):
    """A user that agents met."""

    id: str
    canonical_id: str
    display_name: str | None
    telegram_id: str | None
    email: str | None
    total_conversations: int
    last_seen_at: str
    created_at: str


@exact
class Checkpoint(TypedDict):
    """A checkpoint of a conversation. `step` and `source` are null if its metadata lack them."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str
    parent_checkpoint_id: str | None
    step: int | None
    source: str | None
    blob_size: int


@exact
class Facts(TypedDict):
    """A page of facts, the latest change first."""

    items: list[Fact]
    total: int


@exact
class Episodes(TypedDict):
    """A page of episodes, the latest first."""

    items: list[Episode]
    total: int


@exact
class Procedures(TypedDict):
    """A page of procedures, the latest first. Inactive ones are included."""

    items: list[Procedure]
    total: int


@exact
class Users(TypedDict):
    """A page of users, the one seen last first."""

    items: list[User]
    total: int


@exact
class Checkpoints(TypedDict):
    """A page of checkpoints, the latest id first."""

    items: list[Checkpoint]
    total: int


@exact
class Ids(TypedDict):
    """The ids to delete. Unknown ones are ignored."""

    ids: list[str]


@exact
class CheckpointIds(TypedDict, total=False):
    """The threads and the single checkpoints to delete. Unknown ones are ignored."""

    thread_ids: list[str] | None
    checkpoint_ids: list[str] | None


@exact
class ChatMessage(TypedDict):
    """A message of a conversation."""

    role: Literal["user", "assistant"]
    text: str
    timestamp: str | None


@exact
class ChatHistory(TypedDict):
    """The last messages of a conversation, the oldest first."""

    messages: list[ChatMessage]
    thread_id: str
    has_more: bool
