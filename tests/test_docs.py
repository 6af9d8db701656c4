"""What the documents name exists: hops, files, commands and blocks."""

import importlib
import json
import re
from operator import attrgetter
from pathlib import Path

import pytest

from memrelay.blocks.reference import PAGE, fill
from memrelay.blocks.registry import built_in_blocks
from memrelay.cli.main import COMMANDS
from memrelay.cli.settings import load_settings
from memrelay.pipelines.bundle import AgentSpec
from memrelay.pipelines.check import check
from memrelay.pipelines.cron import CronSchedule

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs/integrations").glob("*.md")),
    *sorted((ROOT / "docs/mcp").glob("*.md")),
    *sorted((ROOT / "docs" / "coming-from").glob("*.md")),
    *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


HOPS = re.findall(r"`([a-z_/0-9]+)\.py:([A-Za-z_.]+)`", (ROOT / "docs" / "route.md").read_text())


@pytest.mark.parametrize(("module", "symbol"), HOPS)
def test_each_hop_of_the_route_exists(module: str, symbol: str) -> None:
    assert attrgetter(symbol)(importlib.import_module(module.replace("/", ".")))


def test_the_route_has_hops() -> None:
    assert len(HOPS) > 15


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_each_link_leads_to_a_file(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)\)", page.read_text())

    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=page_id)
def test_each_link_into_a_page_leads_to_a_heading(page: Path) -> None:
    links = re.findall(r"\]\(([\w./-]*\.md|)#([^)]+)\)", page.read_text())

    assert [
        link for link in links if link[1] not in anchors(page.parent / link[0] if link[0] else page)
    ] == []


def anchors(page: Path) -> set[str]:
    """By which the headings of a page are linked to."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_each_command_named_exists(page: Path) -> None:
    named = set(re.findall(r"memrelay ([a-z]+(?:-[a-z]+)*)", page.read_text()))

    assert named - set(COMMANDS) == set()


def test_the_commands_page_names_each_command_and_the_blocks_page_each_block() -> None:
    commands = (ROOT / "docs" / "commands.md").read_text()
    blocks = (ROOT / "docs" / "blocks.md").read_text()

    assert [name for name in COMMANDS if f"`memrelay {name}" not in commands] == []
    assert [name for name in built_in_blocks() if f"`{name}`" not in blocks] == []


def test_the_bundles_shown_can_be_deployed_and_each_key_of_ours_is_told() -> None:
    page = (ROOT / "docs" / "bundles.md").read_text()
    shown = [json.loads(one) for one in re.findall(r"```json\n(.*?)```", page, re.S)]

    whole = [check(one) for one in shown if "pipeline_name" in one]
    assert [(one.faults, one.warnings) for one in whole] == [((), ())] * 3
    assert [
        key for key in sorted(AgentSpec.keys()) if key.startswith("wf_w") and f"`{key}`" not in page
    ] == []


def test_the_bundle_of_the_tutorial_can_be_deployed() -> None:
    (shown,) = re.findall(r"```json\n(.*?)```", (ROOT / "docs/tutorial.md").read_text(), re.S)

    checked = check(json.loads(shown))

    assert (checked.faults, checked.warnings) == ((), ())


def test_the_timers_shown_can_be_deployed() -> None:
    shown = re.findall(r"```json\n(.*?)```", (ROOT / "docs" / "bundles.md").read_text(), re.S)

    checked = [check({"pipeline_name": "notes", "agents": [json.loads(one)]}) for one in shown[1:3]]

    assert [(one.faults, one.warnings) for one in checked] == [((), ()), ((), ())]
    timer, scheduled = (one.accepted().agents[0] for one in checked)
    assert timer.interval_ms == 60_000
    assert scheduled.schedule == CronSchedule("0 9 * * MON-FRI", "Europe/Berlin")


def test_the_bundle_with_an_agent_can_be_deployed() -> None:
    page = (ROOT / "docs" / "agents.md").read_text()
    shown = [json.loads(text) for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL)]

    (bundle,) = [one for one in shown if "agents" in one]
    assert check(bundle).faults == ()
    args = built_in_blocks()["agent"].args
    base = {"url": "http://127.0.0.1/v1", "model": "m"}
    for one in shown:
        if "api_key" in one:
            args.model_validate(base | one)
        elif "memory_ids" in one:
            args.model_validate(base | {"knowledge_config": one})


def test_the_blocks_page_is_that_of_the_blocks() -> None:
    assert PAGE.read_text() == fill(PAGE.read_text())


def test_the_configuration_page_has_each_setting_with_its_default() -> None:
    page = (ROOT / "docs" / "configuration.md").read_text()
    told = dict(re.findall(r"^\| `(\w+\.\w+)` \| (?:`(.*?)`)? *\|", page, re.MULTILINE))

    settings = load_settings(ROOT / "config.yaml", {})

    sections = {name: getattr(settings, name) for name in type(settings).model_fields}
    expected = {
        f"{name}.{key}": value for name, section in sections.items() for key, value in section
    }
    assert told == {
        name: ("" if value is False or value in ("", None, ()) else str(value)).removeprefix(
            f"{ROOT}/"
        )
        for name, value in expected.items()
    }


def test_the_block_shown_is_the_block_there_is() -> None:
    shown = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "blocks.md").read_text(), re.S)

    assert shown is not None
    assert shown[1].strip() in (ROOT / "memrelay" / "blocks" / "add_1.py").read_text()
