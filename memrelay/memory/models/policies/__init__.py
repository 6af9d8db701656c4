"""Policies: what may enter a store, and what happens to it on the way in."""

from memrelay.memory.engine.models import Model, RowLines, Rows

HAS_POLICIES = "SELECT EXISTS (SELECT 1 FROM policies) OR EXISTS (SELECT 1 FROM declared_policies)"
MODEL = Model(
    name="policies",
    faces=("cli.commands.policy", "web.console.pages.policies"),
    nouns={"policies": ("policies", "scanning")},
    rows=(
        Rows(
            "policies",
            lines=RowLines(
                "policy",
                "export:ExportedPolicy",
                key=("name",),
                count="policies",
                order=("position",),
                summary="{count} policy rule{s}",
                writer="table:PolicyTable",
            ),
            row="position",
        ),
        # Not exported: a deploy writes them.
        Rows("declared_policies"),
        Rows("policy_keys"),
        Rows("policy_limits", texts=("source",)),
        Rows("policy_counts"),
        Rows("policy_verdicts", texts=("guid", "actor"), row="n"),
    ),
    settle="stops:settle",
    own_features={"policies": HAS_POLICIES},
)
