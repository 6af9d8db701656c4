"""Finds the message that wrote a record."""

from functools import lru_cache

from memrelay.memory.records.ids import derive_guid, input_of_guid
from memrelay.web.api.directory import Served

# Records of one agent and message that are recognized.
MAX_NUMBERS = 16
# The paths of inputs that are recognized: the message itself, and the later steps of its cascade,
# by the number of messages published before and that of the step (memrelay/web/trace/inputs.py).
PATHS = ("", *(f".{published}+{step}" for published in range(8) for step in range(4)))


def find_entry(served: Served, guid: str) -> str:
    """Return the entry of the message whose agents wrote a record, "" if none of them did.

    A guid derives from the entry, the agent and a number.
    """
    agents = tuple(agent.agent.alias for agent in served.bundle.agents if agent.calls)
    return _find_entry(served.deployed.uid, guid, agents)


@lru_cache(4096)
def _find_entry(uid: str, guid: str, agents: tuple[str, ...]) -> str:
    """Cached: a page that is refreshed asks for the same guid again."""
    entry = input_of_guid(guid)
    if not entry:
        return ""
    is_written = any(
        derive_guid(uid, entry + path, agent, number) == guid
        for path in PATHS
        for agent in agents
        for number in range(1, MAX_NUMBERS + 1)
    )
    return entry if is_written else ""
