"""Canonical ids of users: `channel:id`, the id with `%` and `:` percent-encoded."""

from memrelay.memory.errors import Refused
from memrelay.memory.models.agent_memory.scopes import MAX_ID_CHARACTERS

TELEGRAM, EMAIL = "telegram", "email"


def canonical_id(channel: str, ident: str) -> str:
    """Return the canonical id of a user. Ids of the channel `email` are compared in lower case.

    Raises Refused: when the channel or the id is empty, has an invalid character or is too long.
    """
    channel, ident = channel.strip(), clean_id(channel, ident)
    if not channel or ":" in channel or not _is_clean(channel):
        raise Refused(
            f"`channel` is a name without `:`, such as telegram or webhook; got {channel[:64]!r}"
        )
    if not ident or not _is_clean(ident):
        raise Refused("`id` is the user's id in the channel: a text without the character NUL")
    made = f"{channel}:{ident.replace('%', '%25').replace(':', '%3A')}"
    if len(made) > MAX_ID_CHARACTERS:
        raise Refused(
            f"the canonical id of a user has at most {MAX_ID_CHARACTERS} characters; "
            f"this one has {len(made)}, so send a shorter id"
        )
    return made


def clean_id(channel: str, ident: str) -> str:
    """Return the id of a user in a channel as it is stored."""
    return ident.strip().lower() if channel.strip() == EMAIL else ident.strip()


def split_canonical(user_id: str) -> tuple[str, str]:
    """Return (channel, decoded id) of a canonical id. The channel is "" if it has none."""
    channel, colon, ident = user_id.partition(":")
    if not colon:
        return "", user_id
    return channel, ident.replace("%3A", ":").replace("%25", "%")


def _is_clean(text: str) -> bool:
    return "\0" not in text and text.isprintable()
