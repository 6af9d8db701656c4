"""The nodes of n8n: built and linted by n8n's own tool, and run against a real server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from memrelay.memory.models.endpoints.events import list_event_types
from tests.support.bundles import make_commands
from tests.support.keys import await_closed, make_key
from tests.support.npm import ROOT, npm_project, run_script
from tests.support.web_system import WebSystem

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

PACKAGE = ROOT / "clients/n8n-nodes-memrelay"
PAGE = ROOT / "docs/integrations/n8n.md"
NOTES = "instances/${pipeline_uid}/notes"


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(worker=False, WEB__RATE="0") as web_system:
        web_system.system.start_worker(outgoing={"open_for": ["endpoints"]})
        yield web_system


@pytest.fixture(scope="module")
def package() -> Path:
    """A copy of the package, built."""
    project = npm_project(PACKAGE)
    run_script(project, "build")
    return project


def test_the_package_passes_the_linter_of_n8n(package: Path) -> None:
    run_script(package, "lint")


def test_the_nodes_work_with_a_server(package: Path, web_system: WebSystem) -> None:
    uid, key = web_system.deploy(*make_commands(NOTES)), make_key(web_system.system.root).text
    await_closed(web_system)

    run_script(
        package,
        "test",
        MEMRELAY_URL=web_system.url,
        MEMRELAY_KEY=key,
        MEMRELAY_PIPELINE=uid,
        MEMRELAY_EVENTS=json.dumps(list_event_types()),
        MEMRELAY_PAGE=str(PAGE),
    )
