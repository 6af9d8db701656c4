"""Recipes: declared retrieval pipelines, the sources that they read, and context assembly."""

from memrelay.memory.engine.models import Model, RowLines, Rows

KEYED = "records:RecipeTables"
MODEL = Model(
    name="recipes",
    store="recipes",
    nouns={
        "recipes": ("recipes",),
        "assembly": ("assembly_operations",),
        "documents": ("documents",),
        "events": ("event_log",),
        "graph": ("graph_operations",),
        "graph_templates": ("graph_templates",),
        "instances": ("instances",),
        "knowledge_graph": ("knowledge_graph",),
        "kv": ("kv",),
        "rules": ("rules",),
        "view_templates": ("view_templates",),
        "views": ("views",),
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
    needs_vectors="records:has_documents",
    formats={"mcp": "mcp_file:write_mcp"},
    container_kinds=("recipe.instance",),
    # The content of recipes and rule engines is JSON.
    json_kinds=("recipe.*",),
    erase="graph.edge_erasure:EdgeErasure",
    keyed={
        "recipe.definition": KEYED,
        "recipe.document": KEYED,
        "recipe.instance": KEYED,
        "recipe.rule_engine": KEYED,
        "recipe.node": KEYED,
        "recipe.graph_template": KEYED,
        "recipe.view_template": KEYED,
    },
)
