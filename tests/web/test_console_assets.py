"""The sizes of the console's static files: pages must load fast on slow connections."""

from pathlib import Path

import pytest

from tests.support.npm import ROOT, npm_project, run_script

STATIC = Path(__file__).resolve().parents[2] / "memrelay" / "web" / "console" / "static"
# 500 of them for the keys of the page "Review".
MAX_BYTES = 147_500


def test_all_static_files_are_small() -> None:
    sizes = {file.name: file.stat().st_size for file in STATIC.iterdir() if file.is_file()}

    assert sum(sizes.values()) <= MAX_BYTES, sizes


@pytest.mark.parametrize(("name", "max_lines"), [("acting.js", 150), ("shortcuts.js", 80)])
def test_a_shared_script_is_short(name: str, max_lines: int) -> None:
    assert len((STATIC / name).read_text().splitlines()) <= max_lines


@pytest.mark.parametrize(
    ("name", "max_bytes"),
    [("editor.js", 400_000), ("editor.css", 20_000), ("json_view.js", 450_000)],
)
def test_the_editor_is_small(name: str, max_bytes: int) -> None:
    assert (STATIC / "editor" / name).stat().st_size <= max_bytes


def test_only_the_pages_of_the_editor_load_it() -> None:
    templates = STATIC.parent / "templates"

    loading = {path.name for path in templates.rglob("*.html") if "editor/" in path.read_text()}

    assert loading == {"editor.html", "editor_new.html"}


@pytest.mark.slow
def test_the_committed_editor_is_built_from_its_sources(tmp_path: Path) -> None:
    run_script(npm_project(ROOT / "editor"), "build", EDITOR_OUT=str(tmp_path))

    built = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert built == {file.name: file.read_bytes() for file in (STATIC / "editor").iterdir()}
