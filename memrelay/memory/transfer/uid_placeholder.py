"""The placeholder for the uid of a pipeline in the lines of an export."""

from memrelay.memory.records.ids import HEX

UID = "${pipeline_uid}"
# The id of the chat of a swarm: `chat:<uid>/<swarm>`.
CHAT = "chat:"


def replace_uid(name: str, before: str, after: str) -> str:
    """Replace the uid in the id of a named memory, in the `memory_id` of a store, in the id of a
    chat, and at the end of the id of a thread. Return other names unchanged.
    """
    own = f"mem_{before}_"
    if name.startswith(own) and HEX.fullmatch(name, len(own)):
        return f"mem_{after}_{name[len(own) :]}"
    for start in ("instances/", CHAT):
        folder = f"{start}{before}/"
        if name.startswith(folder):
            return f"{start}{after}/{name.removeprefix(folder)}"
    if name.endswith(f":{before}"):
        return f"{name.removesuffix(before)}{after}"
    return name
