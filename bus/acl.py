"""The rules of the server's access control list (ACL, Redis and Valkey 7) that confine a client to
one pipeline."""

import re
from collections.abc import Iterable

from bus.wire import PUBLIC, ask_channel, input_key, reply_channel, swarm_key

COMMANDS = (
    "xadd",
    "xlen",
    "xrange",
    "xrevrange",
    "xread",
    "publish",
    "subscribe",
    "unsubscribe",
    "ping",
    "hello",
    "auth",
    "quit",
    "client|setname",
    "client|setinfo",
    "client|id",
    "multi",
    "exec",
    "discard",
)
SPECIAL = re.compile(r"[ \"'*?\[\]\\]")  # in the server's patterns, and in its command line


def client_rules(uid: str, public: Iterable[str] = ()) -> list[str]:
    """What follows `ACL SETUSER <name>`, but for the password: append to the input, read logs,
    speak, hear and ask on channels.

    The logs are the owner's to write, so they can only be read. The input can be read too, to see
    whether an entry is done.
    `public` are the pipeline's public swarms; a `?` stands for what has a meaning in a pattern.
    """
    swarms = [
        swarm_key(uid, "*"),
        *[swarm_key(PUBLIC, SPECIAL.sub("?", swarm)) for swarm in public],
    ]
    return [
        "reset",
        "on",
        f"~{input_key(uid)}",
        *[rule for key in swarms for rule in (f"%R~{key}", f"&{key}")],
        f"&{ask_channel(uid)}",
        f"&{reply_channel(uid, '*')}",
        "-@all",
        *[f"+{command}" for command in COMMANDS],
    ]
