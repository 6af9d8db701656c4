"""Subjects: which users, agents and conversations a store knows, and all records of one of them."""

from memrelay.memory.engine.models import Model

MODEL = Model(
    name="subjects",
    faces=("web.console.pages.people", "web.console.subject_reads"),
    nouns={"records": ("timeline",)},
)
