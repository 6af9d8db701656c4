"""Records: their fields, ids, tags, data, API views and operations."""

from memrelay.memory.engine.models import Model

MODEL = Model(
    name="records",
    nouns={
        "records": (
            "writing",
            "reading",
            "deletion",
            "memrelay.memory.search.search",
            "memrelay.memory.search.vectors",
            "memrelay.memory.transfer.import_records",
        ),
        "changes": ("changes",),
        "waiting_messages": ("waiting_messages",),
        "message_timings": ("message_timings",),
    },
)
