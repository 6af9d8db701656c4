"""The stores of a pipeline whose records the console shows."""

from memrelay.memory.engine.memory_id import home_of, is_closed
from memrelay.web.api.directory import Served


def list_record_stores(served: Served) -> list[str]:
    """Return the memory_ids of the stores with records: those of blocks, and the agents' memory."""
    named = [agent.args.store for agent in served.bundle.agents if agent.args.store]
    every = dict.fromkeys((*named, home_of(served.deployed.uid, "memories")))
    return [name for name in every if not is_closed(name)]
