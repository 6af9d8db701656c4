"""The official inspector lists and calls tools."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.child import CHECKOUT
from tests.support.npm import npm_command, npm_environment

pytestmark = pytest.mark.slow


def inspect(folder: Path, *arguments: str) -> Any:
    """Return the JSON that the inspector prints about a server on a file."""
    server = [sys.executable, "-m", "memrelay.cli.main", "mcp", "--file", str(folder / "notes.db")]
    ended = subprocess.run(
        [*npm_command("mcp-inspector-cli"), *server, *arguments],
        cwd=folder,
        env=npm_environment() | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended
    return json.loads(ended.stdout)


def test_the_inspector_lists_and_calls_tools(tmp_path: Path) -> None:
    listed = inspect(tmp_path, "--method", "tools/list")
    call = ("--method", "tools/call", "--tool-name")
    inspect(tmp_path, *call, "memory_remember", "--tool-arg", "text=Ada likes tea")
    found = inspect(tmp_path, *call, "memory_recall", "--tool-arg", "query=what does Ada drink")

    assert "memory_recall" in [tool["name"] for tool in listed["tools"]]
    assert "Ada likes tea" in found["content"][0]["text"]
