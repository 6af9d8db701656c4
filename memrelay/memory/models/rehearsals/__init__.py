"""Rehearsals: runs of kept inputs under another bundle, on copies of the stores."""

from memrelay.memory.engine.models import Model

MODEL = Model(
    name="rehearsals",
    faces=("rehearsal", "cli.commands.rehearse", "web.console.pages.rehearsals"),
    nouns={"rehearsals": ("rehearsals",)},
)
