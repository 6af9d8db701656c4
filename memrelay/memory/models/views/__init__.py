"""Declared views: aggregates of records, kept in the transaction of each change."""

from memrelay.memory.engine.models import Model, RowLines, Rows

HAS_VIEWS = (
    "SELECT EXISTS (SELECT 1 FROM defined_views) OR EXISTS (SELECT 1 FROM declared_views) "
    "OR EXISTS (SELECT 1 FROM built_views)"
)
MODEL = Model(
    name="views",
    nouns={"views": ("views",)},
    rows=(
        Rows(
            "defined_views",
            lines=RowLines(
                "declared_view",
                "export:ExportedView",
                key=("name",),
                count="declared_views",
                summary="{count} declared view{s}",
                writer="table:ViewTable",
            ),
        ),
        # Not exported: a deploy writes them.
        Rows("declared_views"),
        # Not exported: computed from the records.
        Rows("built_views"),
        Rows("view_members"),
        Rows("view_counts"),
    ),
    salvage="feature:REBUILD",
    own_features={"views": HAS_VIEWS},
)
