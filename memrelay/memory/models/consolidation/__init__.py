"""Consolidation: near duplicates, contradictions and stale facts become proposals for review."""

from memrelay.memory.engine.models import Model, Rows

MODEL = Model(
    name="consolidation",
    faces=("blocks.consolidate",),
    # Not exported: they belong to the proposals of this file. They have no text of a user.
    rows=(Rows("consolidation_passes"), Rows("consolidation_findings")),
)
