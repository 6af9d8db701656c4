"""Provenance: where each state of a record came from."""

from memrelay.memory.engine.models import Model, Rows

MODEL = Model(
    name="provenance",
    faces=("cli.commands.undo", "web.console.pages.undo"),
    nouns={"records": ("listing", "undo")},
    rows=(Rows("origins", row="id", before_records=True),),
    erase="erasure:OriginErasure",
)
