"""Keyed items in shared stores: Robutler's model."""

from memrelay.memory.engine.models import KindEvents, Model, RowLines, Rows

# SQL names this kind literally, so that SQLite uses its indexes.
ITEM_KIND = "store.item"

MODEL = Model(
    name="shared_stores",
    store="stores",
    faces=(
        "blocks.memory_tool",
        "cli.commands.reseal",
        "embedded",
        "integrations.anthropic",
        "web.mcp.tool_handlers",
        "web.mcp.tools.files",
        "web.models.robutler",
    ),
    nouns={
        "items": ("items",),
        "grants": ("grants",),
        "contexts": ("contexts",),
        "stores": ("stores",),
        "memory_tool": ("memory_tool",),
    },
    rows=(
        Rows(
            "grants",
            texts=("store", "grantee", "granted_by"),
            lines=RowLines(
                "grant",
                "export:ExportedGrant",
                key=("store", "grantee"),
                count="grants",
                ids=("store", "grantee", "granted_by"),
                summary="{count} grant{s}",
            ),
        ),
        Rows(
            "contexts",
            texts=("id", "agent"),
            lines=RowLines(
                "context",
                "export:ExportedContext",
                key=("id", "agent"),
                count="contexts",
                ids=("id", "agent"),
                summary="{count} context{s}",
            ),
        ),
        Rows(
            "agent_settings",
            texts=("agent",),
            lines=RowLines(
                "agent_settings",
                "export:ExportedSettings",
                key=("agent",),
                count="agent_settings",
                ids=("agent",),
                summary="settings of {count} agent{s}",
            ),
        ),
    ),
    events={
        ITEM_KIND: KindEvents(
            {
                "record.created": "item.put",
                "record.updated": "item.put",
                "record.appended": "item.put",
                "record.restored": "item.put",
                "record.deleted": "item.deleted",
            },
            view="items:name_item",
            has_ids_only=True,
        )
    },
    rights={"grants": "expires_at", "contexts": "expires_at", "agent_settings": ""},
    internal=f"SELECT guid FROM records WHERE kind = '{ITEM_KIND}' AND in_context = 0",
    seals="seals:ItemSealKeys",
    internal_kinds=(ITEM_KIND,),
    reserved=("store.",),
    keyed={ITEM_KIND: "table:ItemTable"},
)
