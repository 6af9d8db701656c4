"""The adapters in the environment of development, which has few of their frameworks."""

import subprocess
import sys
from pathlib import Path

from langchain_core.messages import AIMessage, HumanMessage

from memrelay import open_store
from memrelay.integrations.langchain import MemrelayChatMessageHistory

# The package of a framework by the extra of its adapter.
FRAMEWORKS = {
    "agent-framework": "agent_framework",
    "agno": "agno",
    "langchain": "langchain_core",
    "llama-index": "llama_index",
    "openai-agents": "agents",
    "pydantic-ai": "pydantic_ai",
    "strands": "strands",
}
IMPORT_ALL = """
import importlib, sys
for extra, framework in zip(sys.argv[1::2], sys.argv[2::2]):
    sys.modules[framework] = None
    try:
        importlib.import_module(f"memrelay.integrations.{extra.replace('-', '_')}")
    except ImportError as error:
        print(error)
"""


def test_a_history_of_langchain_is_read_from_its_file(tmp_path: Path) -> None:
    messages = [HumanMessage("I like tea"), AIMessage("Noted")]
    with open_store(tmp_path / "memory.db", embedder="none") as store:
        MemrelayChatMessageHistory("chat", store, user="ada").add_messages(messages)

    with open_store(tmp_path / "memory.db", embedder="none") as store:
        assert MemrelayChatMessageHistory("chat", store, user="ada").messages == messages


def test_without_its_framework_an_adapter_names_the_extra() -> None:
    named = [name for pair in FRAMEWORKS.items() for name in pair]

    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, *named], check=True, capture_output=True, text=True
    )

    lines = done.stdout.splitlines()
    assert len(lines) == len(FRAMEWORKS)
    for line, extra in zip(lines, FRAMEWORKS, strict=True):
        assert f"pip install -e '.[{extra}]'" in line
