"""JSON shapes of Pipelit's routes. The operations validate the input."""

from functools import partial
from typing import Any, Literal

from typing_extensions import TypedDict  # required by pydantic before Python 3.12

from memrelay.web.models.shapes import array_of, derive_shape, make_shape
from memrelay.web.openapi.shapes import exact

derive = partial(derive_shape, __name__)


def _make_page(name: str, description: str, item: Any) -> Any:
    return make_shape(__name__, name, description, {"items": array_of(item), "total": int})


Fact = derive(
    "Fact",
    "facts.list/items/0",
    "A fact.",
    "id scope agent_id user_id key value fact_type confidence times_confirmed access_count "
    "created_at updated_at",
)
Episode = derive(
    "Episode",
    "episodes.list/items/0",
    "An episode without its steps.",
    "id agent_id user_id trigger_type success error_code summary started_at ended_at duration_ms "
    "created_at",
)
Procedure = derive(
    "Procedure",
    "procedures.list/items/0",
    "A procedure without its content.",
    "id agent_id name description procedure_type times_used times_succeeded times_failed "
    "success_rate is_active created_at",
)
User = derive(
    "User",
    "users.list/items/0",
    "A user that agents met.",
    "id canonical_id display_name telegram_id email total_conversations last_seen_at created_at",
)
Checkpoint = derive(
    "Checkpoint",
    "checkpoints.list/items/0",
    "A checkpoint of a conversation. `step` and `source` are null if its metadata lack them.",
    "thread_id=thread checkpoint_ns=ns checkpoint_id=id parent_checkpoint_id=parent blob_size=size",
    parent_checkpoint_id=str | None,
    step=int | None,
    source=str | None,
)
Facts = _make_page("Facts", "A page of facts, the latest change first.", Fact)
Episodes = _make_page("Episodes", "A page of episodes, the latest first.", Episode)
Procedures = _make_page(
    "Procedures", "A page of procedures, the latest first. Inactive ones are included.", Procedure
)
Users = _make_page("Users", "A page of users, the one seen last first.", User)
Checkpoints = _make_page("Checkpoints", "A page of checkpoints, the latest id first.", Checkpoint)


@exact
class Ids(TypedDict):
    """The ids to delete. Unknown ones are ignored."""

    ids: list[str]


@exact
class CheckpointIds(TypedDict, total=False):
    """The threads and the single checkpoints to delete. Unknown ones are ignored."""

    thread_ids: list[str] | None
    checkpoint_ids: list[str] | None


ChatMessage = derive(
    "ChatMessage",
    "conversations.history/messages/0",
    "A message of a conversation.",
    "role text timestamp",
    role=Literal["user", "assistant"],
)
ChatHistory = derive(
    "ChatHistory",
    "conversations.history",
    "The last messages of a conversation, the oldest first.",
    "messages thread_id has_more",
    messages=array_of(ChatMessage),
)
