"""The Python example of the README runs as shown."""

import subprocess
import sys
from pathlib import Path

from tests.support.sessions import CHECKOUT, fences


def test_the_python_example_finds_what_it_wrote(tmp_path: Path) -> None:
    (example,) = [text for language, text in fences(CHECKOUT / "README.md") if language == "python"]

    done = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env={"PYTHONPATH": str(CHECKOUT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert done.stdout == "Ada prefers tea\n"
    assert (tmp_path / "notes.db").exists()
