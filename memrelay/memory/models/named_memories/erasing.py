"""What an erasure reports about named memories: it deletes no memory for a text in its name."""

from memrelay.memory.engine.erasures import ModelErasure
from memrelay.memory.engine.quotes import Matcher
from memrelay.memory.engine.store import Store
from memrelay.memory.models.named_memories.table import MemoryTable

# Memories that a report lists.
MAX_LISTED = 10


class MemoryErasure(ModelErasure):
    """Finds erased texts in the names, descriptions and tags of named memories."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._memories = store.table(MemoryTable)

    def describe_kept(self, matcher: Matcher) -> str:
        """Return which memories have the text, "" for none."""
        ids = [
            memory.id
            for memory in self._memories.every()
            if any(
                map(matcher.in_text, filter(None, (memory.name, memory.description, memory.tags)))
            )
        ]
        if not ids:
            return ""
        more = f" and {len(ids) - MAX_LISTED} more" if len(ids) > MAX_LISTED else ""
        listed = f"{', '.join(ids[:MAX_LISTED])}{more}"
        return (
            f"the name, description or tags of these named memories have the text: {listed}; "
            "change or delete them (memories.update, memories.delete)"
        )
