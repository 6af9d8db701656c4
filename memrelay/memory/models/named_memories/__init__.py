"""Named memories: deduplicated facts, as SOAT has them."""

from memrelay.memory.engine.models import Model

MODEL = Model(
    name="named_memories",
    store="memories",
    nouns={
        "memories": ("memories",),
        "entries": ("entries",),
        "knowledge": ("knowledge",),
    },
    has_texts="table:has_memories",
)
