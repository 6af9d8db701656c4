"""The memory of agents: facts, episodes, procedures, users, conversations and checkpoints."""

from memrelay.memory.engine.models import Model, RowLines, Rows

MODEL = Model(
    name="agent_memory",
    store="memories",
    nouns={
        "facts": ("facts",),
        "episodes": ("episodes",),
        "procedures": ("procedures",),
        "users": ("users",),
        "conversations": ("conversations",),
        "checkpoints": ("checkpoints",),
    },
    rows=(
        Rows(
            "tallies",
            lines=RowLines(
                "tally",
                "export:ExportedTally",
                key=("guid",),
                count="tallies",
                of_record=True,
            ),
        ),
        Rows(
            "checkpoints",
            lines=RowLines(
                "checkpoint",
                "export:ExportedCheckpoint",
                key=("agent", "thread", "ns", "id"),
                count="checkpoints",
                ids=("thread",),
                summary="{count} checkpoint{s}",
            ),
        ),
        Rows(
            "checkpoint_values",
            lines=RowLines(
                "checkpoint_value",
                "export:ExportedCheckpointValue",
                key=("agent", "thread", "n"),
                count="checkpoint_values",
                ids=("thread",),
            ),
        ),
        Rows(
            "checkpoint_writes",
            lines=RowLines(
                "checkpoint_write",
                "export:ExportedCheckpointWrite",
                key=("agent", "thread", "ns", "id", "task", "idx"),
                count="checkpoint_writes",
                ids=("thread",),
            ),
        ),
    ),
    conversation_kinds=("memory.episode", "memory.step"),
    recover="episodes:end_abandoned",
    erase="checkpoint_erasing:CheckpointErasure",
    keyed={
        "memory.fact": "table:FactTable",
        "memory.procedure": "table:ProcedureTable",
        "memory.episode": "table:EpisodeTable",
        "memory.user": "table:UserTable",
    },
)
