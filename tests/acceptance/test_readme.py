"""The Python example of the README runs as shown, and it names the wheel that a build makes."""

import re
import subprocess
import sys
import tomllib
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


def test_the_install_section_names_the_wheel_and_extras_of_the_project() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    (wheel, extras), *others = re.findall(
        r"build/packages/(\S+\.whl)\[([\w,]+)\]", (CHECKOUT / "README.md").read_text()
    )

    assert wheel == f"memrelay-{project['version']}-py3-none-any.whl"
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert others == []


def test_the_page_of_parts_lists_all_extras() -> None:
    extras = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]

    page = (CHECKOUT / "docs" / "which-part.md").read_text()

    assert [name for name in extras if f"\n| `{name}` |" not in page] == []
