"""The sizes of the console's static files: pages must load fast on slow connections."""

from pathlib import Path

import pytest

STATIC = Path(__file__).resolve().parents[2] / "memrelay" / "web" / "console" / "static"
# 500 of them for the keys of the page "Review".
MAX_BYTES = 147_500


def test_all_static_files_are_small() -> None:
    sizes = {file.name: file.stat().st_size for file in STATIC.iterdir() if file.is_file()}

    assert sum(sizes.values()) <= MAX_BYTES, sizes


@pytest.mark.parametrize(("name", "max_lines"), [("acting.js", 150), ("shortcuts.js", 80)])
def test_a_shared_script_is_short(name: str, max_lines: int) -> None:
    assert len((STATIC / name).read_text().splitlines()) <= max_lines
