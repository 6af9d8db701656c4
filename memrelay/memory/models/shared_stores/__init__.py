"""Keyed items in shared stores: Robutler's model."""

from memrelay.memory.engine.models import Model, Rows

MODEL = Model(
    name="shared_stores",
    store="stores",
    nouns={
        "items": ("items",),
        "grants": ("grants",),
        "contexts": ("contexts",),
        "stores": ("stores",),
        "memory_tool": ("memory_tool",),
    },
    rows=(
        Rows("grants", texts=("store", "grantee", "granted_by")),
        Rows("contexts", texts=("id", "agent")),
        Rows("agent_settings", texts=("agent",)),
    ),
    keyed={"store.item": "table:ItemTable"},
)
