"""The tests that docs/testing.md shows run with plain pytest."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.support.sessions import CHECKOUT, fences

SHOWN = [
    text for language, text in fences(CHECKOUT / "docs" / "testing.md") if language == "python"
]


def test_each_test_of_the_page_passes(tmp_path: Path) -> None:
    for number, text in enumerate(SHOWN):
        (tmp_path / f"test_page_{number}.py").write_text(text)
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    plain = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(run, cwd=tmp_path, env=plain, capture_output=True, text=True, check=False)

    assert f"{len(SHOWN)} passed" in done.stdout, done.stdout
    assert sum(len(re.findall("^def test_", text, re.MULTILINE)) for text in SHOWN) == len(SHOWN)
