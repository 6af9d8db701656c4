"""The items of LangGraph stores."""

from memrelay.memory.engine.models import Model

LANGGRAPH_ITEM_KIND = "memory.item"

MODEL = Model(
    name="langgraph",
    store="langgraph",
    faces=(
        "agents",
        "blocks.agent",
        "integrations.langgraph",
    ),
    nouns={"records": ("items",)},
    reserved=("memory.",),
    indexed_kinds=(LANGGRAPH_ITEM_KIND,),
    keyed={LANGGRAPH_ITEM_KIND: "table:LanggraphItemTable"},
)
