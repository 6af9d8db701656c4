"""The examples of docs/langgraph.md run as shown."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sessions import CHECKOUT, fences

EXAMPLES = [
    text for language, text in fences(CHECKOUT / "docs" / "langgraph.md") if language == "python"
]


@pytest.mark.parametrize(
    ("example", "printed"),
    [*zip(EXAMPLES, ("1 messages", "pizza"), strict=True)],
    ids=["saver", "store"],
)
def test_an_example_runs(tmp_path: Path, example: str, printed: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env={"PYTHONPATH": str(CHECKOUT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 0 and printed in ended.stdout, ended
