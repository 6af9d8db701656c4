"""Turns: the messages of conversations, in order."""

from memrelay.memory.engine.models import Model

MODEL = Model(
    name="turns",
    faces=("blocks.extract", "blocks.extraction", "blocks.summarize"),
    nouns={"turns": ("turns",)},
)
