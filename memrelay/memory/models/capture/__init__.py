"""Captured sessions of coding tools: the context of a project, and the sessions of a day.

The turns themselves are written by turns.add, with the project and branch in their `item`.
"""

from memrelay.memory.engine.models import Model

MODEL = Model(
    name="capture",
    faces=("capture", "cli.capture_target", "cli.commands.capture", "web.console.pages.captured"),
    nouns={"capture": ("context", "sessions")},
)
