"""Shared parts of the blocks on an agent's memory: their store and their IDs."""

from memrelay.blocks.contract import Call
from memrelay.blocks.memory_args import MemoryId, StoreArgs
from memrelay.memory.errors import Refused
from memrelay.memory.models.agent_memory.scopes import MAX_ID_CHARACTERS, Ids

# Fields of a message's part that count only if they are trusted.
USER, SESSION = "user_id", "session_id"
# The field with the chat of a message, unless it is the user's own.
CHAT_ID = "chat_id"


class AgentMemoryArgs(StoreArgs):
    """The text of a message is a JSON object, or plain text."""

    memory_id: MemoryId = ""
    """Path of the store below the memory root. By default `instances/${pipeline_uid}/memories`."""

    @property
    def default_store(self) -> str:
        """Return the built-in store of the pipeline's memories."""
        return "memories"


def find_chat(call: Call) -> str:
    """Return the chat of a message, "" for the user's own."""
    chat = call.part.get(CHAT_ID)
    return str(chat) if isinstance(chat, int | str) and not isinstance(chat, bool) else ""


def make_ids(call: Call, agent_id: str) -> Ids:
    """Return the agent, and the user and the session that trusted fields of the message name.

    Raises Refused: when an id is too long.
    """
    part, vouched = call.part, call.message.vouched
    named = {name: part.get(name) for name in (USER, SESSION) if name in vouched}
    ids = {name: id_ for name, id_ in named.items() if isinstance(id_, str)}
    for name, id_ in ids.items():
        if len(id_) > MAX_ID_CHARACTERS or "\0" in id_:
            raise Refused(
                f"`{name}` has {len(id_)} characters; use at most {MAX_ID_CHARACTERS}, without NUL"
            )
    return Ids(agent_id, ids.get(USER, ""), ids.get(SESSION, ""))
