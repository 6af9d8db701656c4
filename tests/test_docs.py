"""What the documents name exists: hops, files, commands and blocks."""
import importlib
import re
from operator import attrgetter
from pathlib import Path

import pytest

from blocks.registry import all_blocks
from cli.main import COMMANDS

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
HOPS = re.findall(r"`([a-z_/0-9]+)\.py:([A-Za-z_.]+)`", (ROOT / "docs" / "route.md").read_text())


@pytest.mark.parametrize(("module", "symbol"), HOPS)
def test_each_hop_of_the_route_exists(module: str, symbol: str) -> None:
    assert attrgetter(symbol)(importlib.import_module(module.replace("/", ".")))


def test_the_route_has_hops() -> None:
    assert len(HOPS) > 15


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())

    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_named_exists(page: Path) -> None:
    named = set(re.findall(r"memrelay ([a-z]+)", page.read_text()))

    assert named - set(COMMANDS) == set()


def test_the_readme_names_each_command_and_the_blocks_page_each_block() -> None:
    readme, blocks = (ROOT / "README.md").read_text(), (ROOT / "docs" / "blocks.md").read_text()

    assert [name for name in COMMANDS if f"`memrelay {name}" not in readme] == []
    assert [name for name in all_blocks() if f"`{name}`" not in blocks] == []


def test_the_block_shown_is_the_block_there_is() -> None:
    shown = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "blocks.md").read_text(), re.S)

    assert shown is not None
    assert shown[1].strip() in (ROOT / "blocks" / "add_1.py").read_text()
