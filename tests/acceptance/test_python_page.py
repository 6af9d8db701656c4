"""What docs/python.md shows runs, and does what it says."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.served import Served
from tests.support.sessions import CHECKOUT, fences

OVER_HTTP, EMBEDDED = [
    text for language, text in fences(CHECKOUT / "docs" / "python.md") if language == "python"
]


def test_the_client_that_is_shown_remembers_and_finds(capsys: pytest.CaptureFixture[str]) -> None:
    shown: dict[str, Any] = {}
    exec(OVER_HTTP, shown)  # the page's own text

    with Served() as served:
        found, total = asyncio.run(shown["remember"](served.url, "", served.deploy()))

    assert (found.content, found.kind, total) == ("Ada likes tea", "fact", 1)
    assert "404 no record has the guid 'nobody'" in capsys.readouterr().out


def test_the_embedded_store_that_is_shown_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    exec(EMBEDDED, {})

    assert capsys.readouterr().out == "['Ada likes tea\\nwith milk']\n"
    assert (tmp_path / "notes.db").exists()
