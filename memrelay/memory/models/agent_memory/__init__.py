"""The memory of agents: facts, episodes, procedures, users, conversations and checkpoints."""

from memrelay.memory.engine.models import KindEvents, Model, RowLines, Rows

# SQL names these kinds literally, so that SQLite uses their indexes.
FACT_KIND, PROCEDURE_KIND = "memory.fact", "memory.procedure"
EPISODE_KIND, STEP_KIND = "memory.episode", "memory.step"
USER_KIND = "memory.user"

MODEL = Model(
    name="agent_memory",
    store="memories",
    faces=(
        "agents",
        "blocks.agent",
        "blocks.agent_memory_args",
        "blocks.identify_user",
        "blocks.recall",
        "blocks.remember",
        "integrations.langgraph",
        "web.console.pages.agent_memory",
        "web.models.pipelit",
    ),
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
    events={
        FACT_KIND: KindEvents(
            {
                "record.created": "fact.set",
                "record.updated": "fact.set",
                "record.appended": "fact.set",
                "record.restored": "fact.set",
                "record.deleted": "fact.deleted",
            },
            view="facts:view_state",
            further=("fact.contradicted",),
        ),
        EPISODE_KIND: KindEvents({}, view="episodes:view_state", further=("episode.completed",)),
    },
    recover="episodes:end_abandoned",
    reserved=("memory.",),
    conversation_kinds=(EPISODE_KIND, STEP_KIND),
    erase="checkpoint_erasing:CheckpointErasure",
    keyed={
        FACT_KIND: "table:FactTable",
        PROCEDURE_KIND: "table:ProcedureTable",
        EPISODE_KIND: "table:EpisodeTable",
        USER_KIND: "table:UserTable",
    },
)
