"""The memory of agents: facts, episodes, procedures, users, conversations and checkpoints."""

from memrelay.memory.engine.models import Model

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
    conversation_kinds=("memory.episode", "memory.step"),
    erase="checkpoint_erasing:CheckpointErasure",
    keyed={
        "memory.fact": "table:FactTable",
        "memory.procedure": "table:ProcedureTable",
        "memory.episode": "table:EpisodeTable",
        "memory.user": "table:UserTable",
    },
)
