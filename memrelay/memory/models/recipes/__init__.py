"""Recipes: declared retrieval pipelines, the sources that they read, and context assembly."""

from memrelay.memory.engine.models import Model, RowLines, Rows

# Kinds of records. SQL names some literally, so that SQLite uses their indexes.
RECIPE_KIND, DOCUMENT_KIND, NODE_KIND = "recipe.definition", "recipe.document", "recipe.node"
INSTANCE_KIND, RULE_ENGINE_KIND = "recipe.instance", "recipe.rule_engine"
GRAPH_TEMPLATE_KIND, VIEW_TEMPLATE_KIND = "recipe.graph_template", "recipe.view_template"
KEYED = "table:RecipeTables"
MODEL = Model(
    name="recipes",
    store="recipes",
    faces=(
        "blocks.recipe",
        "cli.commands.import_",
        "cli.foreign_import",
        "memory.transfer.importers",
        "web.models.codebolt",
        "web.console.entity_layout",
        "web.console.forces",
        "web.console.pages.entity_graph",
        "web.console.pages.recipes",
    ),
    nouns={
        "recipes": ("recipes", "changes"),
        "assembly": ("assembly",),
        "documents": ("documents",),
        "events": ("events",),
        "graph": ("graph.graph", "graph.subgraph"),
        "graph_templates": ("graph.templates",),
        "graph_views": ("graph.views",),
        "instances": ("instances",),
        "knowledge_graph": ("graph.knowledge_graph",),
        "kv": ("kv",),
        "rules": ("rules",),
        "view_templates": ("graph.templates",),
    },
    rows=(
        Rows(
            "kv",
            texts=("instance", "namespace", "key"),
            json=("value",),
            lines=RowLines(
                "kv",
                "export:ExportedPair",
                key=("instance", "namespace", "key"),
                count="pairs",
                summary="{count} key-value pair{s}",
            ),
        ),
        # An import adds events and edges in the order of the lines.
        Rows(
            "events",
            texts=("instance", "stream", "type"),
            json=("payload", "metadata"),
            lines=RowLines(
                "event",
                "export:ExportedEvent",
                key=("instance", "stream", "sequence"),
                count="events",
                order=("row",),
                summary="{count} event{s}",
            ),
            row="row",
            repaired_json=("payload", "metadata"),
        ),
        Rows(
            "edges",
            texts=("id", "instance", "kind", "from_node", "to_node"),
            lines=RowLines(
                "edge",
                "export:ExportedEdge",
                key=("instance", "id"),
                count="edges",
                order=("row",),
                summary="{count} edge{s}",
                equal=("instance", "from_node", "to_node", "kind"),
            ),
            row="row",
        ),
        Rows(
            "views",
            texts=("id", "template", "instance"),
            lines=RowLines(
                "view",
                "export:ExportedView",
                key=("id",),
                count="views",
                summary="{count} view{s}",
            ),
        ),
    ),
    needs_vectors="documents:has_documents",
    formats={"mcp": "graph.knowledge_graph:write_mcp"},
    container_kinds=(INSTANCE_KIND,),
    reserved=("recipe.",),
    # The content of recipes and rule engines is JSON.
    json_kinds=("recipe.*",),
    erase="table:EdgeErasure",
    undo_faults={DOCUMENT_KIND: "document_undo:find_fault"},
    keyed={
        RECIPE_KIND: KEYED,
        DOCUMENT_KIND: KEYED,
        INSTANCE_KIND: KEYED,
        RULE_ENGINE_KIND: KEYED,
        NODE_KIND: KEYED,
        GRAPH_TEMPLATE_KIND: KEYED,
        VIEW_TEMPLATE_KIND: KEYED,
    },
)
