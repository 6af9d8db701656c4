"""users.identify: finds or creates the user behind an id in a channel."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memrelay.memory.agents.users import DisplayName, Identified, Identifier, identify
from memrelay.memory.operation import Context, operation
from memrelay.memory.sqlite.store import Transaction


@dataclass(frozen=True, slots=True)
class IdentifyUser:
    """A person in a channel."""

    channel: Annotated[str, Field(min_length=1, max_length=64)]
    """The channel, such as telegram, email, webhook or chat."""
    channel_id: Annotated[Identifier, Field(min_length=1)]
    """The id of the person in the channel."""
    display_name: DisplayName = ""
    """The name to show. It is stored only if the user has none."""
    telegram_username: DisplayName = ""
    """The user name in Telegram."""


@operation("users.identify", access="write", mutates=True, home="memories", any_store=True)
def identify_user(tx: Transaction, given: IdentifyUser, context: Context) -> Identified:
    """Find or create the user behind an id in a channel, and count a conversation.

    Raises Refused: when the channel or the id is invalid.
    """
    names = (given.display_name, given.telegram_username)
    return identify(tx, given.channel, given.channel_id, context, names)
