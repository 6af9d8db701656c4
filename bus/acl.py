"""The rules of the server's access control list (ACL, Redis and Valkey 7) that confine a client to one pipeline."""
from bus.wire import input_key, reply_channel, swarm_key

COMMANDS = ("xadd", "xlen", "xrange", "xrevrange", "xread", "publish", "subscribe", "unsubscribe", "ping", "hello", "auth",
            "quit", "client|setname", "client|setinfo", "client|id", "multi", "exec", "discard")


def client_rules(uid: str) -> list[str]:
    """What follows `ACL SETUSER <name>`, but for the password: append to the input, read logs, speak and hear on channels.

    The logs are the owner's to write, so they can only be read. The input can be read too, to see whether an entry is done.
    """
    logs = swarm_key(uid, "*")
    return ["reset", "on", f"~{input_key(uid)}", f"%R~{logs}", f"&{logs}", f"&{reply_channel(uid, '*')}", "-@all",
            *[f"+{command}" for command in COMMANDS]]
