"""The identity of the caller of an item operation."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

# Characters of the id of a store, an agent, a user or a chat.
MAX_ID_CHARACTERS = 64
StoreId = Annotated[str, Field(min_length=1, max_length=MAX_ID_CHARACTERS)]
ContextId = Annotated[str, Field(max_length=MAX_ID_CHARACTERS)]
# The input field that interfaces set and that callers may not send.
VOUCHED = "vouched"
# All contexts, for interfaces that trust their caller.
CONTEXTS: tuple[Literal["chat", "user"], ...] = ("chat", "user")
# Descriptions of the fields. Pydantic reads no docstrings of an inherited field.
AGENT = "The agent that calls. Its id is also the id of its own store."
USER = "The user of the session, if there is one."
CHAT = "The chat of the session, if there is one."
VOUCHED_BY = "The contexts that the interface guarantees. Callers may not set it."


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The agent that calls, and the user and the chat for which it works.

    Every input of an item operation extends this class.
    """

    agent: Annotated[StoreId, Field(description=AGENT)]
    user: Annotated[ContextId, Field(description=USER)] = ""
    chat: Annotated[ContextId, Field(description=CHAT)] = ""
    vouched: Annotated[tuple[Literal["chat", "user"], ...], Field(description=VOUCHED_BY)] = ()
