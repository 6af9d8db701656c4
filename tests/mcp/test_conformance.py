"""The conformance suite fails on the product only where it needs its own diagnostic tools."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.support.mcp_suite import REVISIONS, run_suite
from tests.support.web_system import WebSystem

pytestmark = pytest.mark.slow
EXPECTED = Path(__file__).with_name("expected_failures.yaml")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a pipeline with a record."""
    with WebSystem(WEB__RATE="0") as web_system:
        uid = web_system.deploy()
        web_system.post(
            f"/v1/pipelines/{uid}/records", {"content": "Ada likes tea", "in_context": True}
        )
        yield f"{web_system.url}/mcp/{uid}"


@pytest.mark.parametrize("revision", REVISIONS)
def test_only_expected_scenarios_fail(url: str, revision: str, tmp_path: Path) -> None:
    expected: dict[str, str] = yaml.safe_load(EXPECTED.read_text())[revision]

    result = run_suite(url, revision, tmp_path)

    failed = {expected_name(check, expected): message for check, message in result.failed.items()}
    assert {name: failed[name] for name in failed.keys() - expected.keys()} == {}
    assert expected.keys() - failed.keys() == set(), "these pass now: remove them from the file"


def expected_name(check: str, expected: dict[str, str]) -> str:
    """Return the scenario if the file expects that all of it fails, otherwise the check."""
    scenario = check.partition(":")[0]
    return scenario if scenario in expected else check
