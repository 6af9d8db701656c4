"""Extraction: how far blocks have read the turns of a store, and which turns their records are
made of.
"""

from memrelay.memory.engine.models import Model, RowLines, Rows

IN_USE = "SELECT EXISTS (SELECT 1 FROM extractors) OR EXISTS (SELECT 1 FROM evidence)"
MODEL = Model(
    name="extraction",
    faces=("blocks.extract", "blocks.summarize", "blocks.extraction"),
    nouns={"extraction": ("status",)},
    rows=(
        Rows(
            "evidence",
            lines=RowLines(
                "evidence",
                "export:ExportedEvidence",
                key=("record", "turn"),
                count="evidence",
                summary="{count} link{s} of facts to turns",
            ),
        ),
        # Not exported: an import has other rows.
        Rows("extractors"),
    ),
    # Summaries quote turns.
    conversation_kinds=("summary",),
    erase="evidence:EvidenceErasure",
    own_features={"extraction": IN_USE},
)
