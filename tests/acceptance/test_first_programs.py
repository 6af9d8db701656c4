"""The programs of docs/which-part.md, docs/conversations.md and the skill run as shown."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.sessions import CHECKOUT, fences

SKILL = CHECKOUT / "skills/memrelay/SKILL.md"
PAGES = {
    CHECKOUT / "docs/which-part.md": (
        "plumber",
        "Lisbon",
        "de",
        "skipped",
        "email",
        "Friday",
        "roll",
    ),
    CHECKOUT / "docs/conversations.md": ("I moved to Lisbon",),
    SKILL: ("tea", "allergic", "no such fact", "email", "Friday", "- To roll", "guid"),
}
# Runs all programs in one process, as a reader does one after the other in one folder.
RUN = """
import sys
if sys.argv[2:]:
    sys.modules["onnxruntime"] = None  # as without the extra `local`
for text in open(sys.argv[1]).read().split("\\0"):
    exec(compile(text, "<program>", "exec"), {"__name__": "__main__"})
"""


@pytest.mark.parametrize(
    "options", [["without local"], pytest.param([], id="with local", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_programs_of_a_page_run(tmp_path: Path, page: Path, options: list[str]) -> None:
    programs = [text for language, text in fences(page) if language == "python"]
    (tmp_path / "programs").write_text("\0".join(programs))

    ended = subprocess.run(
        [sys.executable, "-c", RUN, "programs", *options],
        cwd=tmp_path,
        env={"PYTHONPATH": str(CHECKOUT), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert len(programs) >= len(PAGES[page]) - 1
    assert [shown for shown in PAGES[page] if shown not in ended.stdout] == [], ended.stdout


def test_the_skill_has_the_form_of_agent_skills() -> None:
    _, front, text = SKILL.read_text().split("---\n", 2)
    fields = yaml.safe_load(front)

    assert fields["name"] == SKILL.parent.name
    assert re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", fields["name"])
    assert 40 < len(fields["description"]) <= 1024
    assert len(text.splitlines()) <= 500
    assert [
        name for name in re.findall(r"docs/[\w/-]+\.md", text) if not (CHECKOUT / name).exists()
    ] == []
