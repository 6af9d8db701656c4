"""Named memories: deduplicated facts, as SOAT has them."""

from memrelay.memory.engine.models import KindEvents, Model, RowLines, Rows

MODEL = Model(
    name="named_memories",
    store="memories",
    faces=(
        "agents",
        "blocks.agent",
        "blocks.extract",
        "blocks.knowledge_search",
        "blocks.memory_entry_write",
        "cli.commands.import_",
        "cli.foreign_import",
        "integrations.langgraph",
        "memory.transfer.importers",
        "web.mcp.tool_handlers",
        "web.mcp.tools.memory_toolset",
        "web.models.soat",
    ),
    nouns={
        "memories": ("memories",),
        "entries": ("entries",),
        "knowledge": ("knowledge",),
    },
    rows=(
        Rows(
            "memories",
            lines=RowLines(
                "memory",
                "export:ExportedMemory",
                key=("id",),
                count="memories",
                ids=("id",),
                order=("row",),
                summary="{count} named memories",
                holds_records=True,
                writer="importing:MemoryImport",
            ),
            row="row",
            repaired_json=("tags",),
            before_records=True,
        ),
        Rows(
            "memory_versions",
            texts=("name", "description"),
            json=("tags",),
            row="n",
            is_history=True,
        ),
        Rows("entries", before_records=True),
    ),
    events={
        "entry": KindEvents(
            {
                "record.created": "entry.created",
                "record.updated": "entry.updated",
                "record.appended": "entry.updated",
                "record.restored": "entry.restored",
                "record.deleted": "entry.deleted",
            },
            view="entries:view_stored_entry",
            further=("entry.merged", "entry.skipped"),
            store="memories",
        )
    },
    erase="erasing:MemoryErasure",
    needs_vectors="table:has_memories",
    formats={"mem0": "export:write_mem0"},
    record_parts={"confirmed": "export:Confirmations"},
    merges={"entry": "importing:EntryMerge"},
    take_back="table:take_back_memories",
    salvage="export:RESET_ENTRIES",
)
