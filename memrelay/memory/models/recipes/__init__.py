"""Recipes: declared retrieval pipelines, the sources that they read, and context assembly."""

from memrelay.memory.engine.models import Model, Rows

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
        Rows("kv", texts=("instance", "namespace", "key"), json=("value",)),
        Rows("events", texts=("instance", "stream", "type"), json=("payload", "metadata")),
        Rows("edges", texts=("id", "instance", "kind", "from_node", "to_node")),
        Rows("views", texts=("id", "template", "instance")),
    ),
    # The content of recipes and rule engines is JSON.
    json_kinds=("recipe.*",),
    erase="graph.edge_erasure:EdgeErasure",
    has_texts="records:has_documents",
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
