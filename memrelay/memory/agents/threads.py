"""Names of conversations: one thread for each user, chat and workflow.

A `:` in an id is encoded, so no two conversations can have the same name.
"""

CHAT, USER = "chat", "user"


def user_of_speaker(name: str) -> str:
    """Return the user who speaks as `name` and has no other identity."""
    return f"{CHAT}:{name}"


def thread_name(user: str, chat: str, workflow: str) -> str:
    """Return the thread of a user, `channel:id`, in a chat of a workflow. `chat` may be "".

    A user without a channel, which a trusted client names, has the channel `user`.
    """
    channel, colon, ident = user.partition(":")
    parts = (channel, ident) if colon else (USER, user)
    return ":".join(_encode(part) for part in (*parts, *([chat] if chat else []), workflow))


def input_thread(execution: str, alias: str) -> str:
    """Return the thread of one input, for a message without a user."""
    return f"exec:{_encode(execution)}:{alias}"


def turn_thread(errand_id: str) -> str:
    """Return the thread with the committed responses of one turn, which is deleted at its end."""
    return f"turn:{errand_id}"


def _encode(part: str) -> str:
    return part.replace("%", "%25").replace(":", "%3A")
