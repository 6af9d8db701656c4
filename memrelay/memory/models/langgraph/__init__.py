"""The items of LangGraph stores."""

from memrelay.memory.engine.models import Model

MODEL = Model(
    name="langgraph",
    store="langgraph",
    nouns={"records": ("items",)},
    keyed={"memory.item": "table:LanggraphItemTable"},
)
