"""The conformance suite passes on its diagnostic tools behind the product's bridge and keys."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.child import ChildProcess
from tests.support.http import ask
from tests.support.keys import make_key
from tests.support.mcp_suite import REVISIONS, run_suite, scored_scenarios

pytestmark = pytest.mark.slow


class Urls(NamedTuple):
    """The product's address, and that of a proxy that adds a key to each request."""

    product: str
    with_key: str


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Urls]:
    folder = tmp_path_factory.mktemp("fixture")
    key = make_key(folder / "memory")
    arguments = [str(folder / "memory"), key.text]
    process = ChildProcess("tests.support.run_mcp_fixture", arguments, folder / "fixture.log")
    try:
        event = process.await_event("web_ready")
        yield Urls(event["url"], event["proxy"])
    finally:
        process.kill()


def test_the_fixture_is_behind_the_keys(urls: Urls) -> None:
    answer = ask(urls.product, "POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})

    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_scored_scenario_passes(urls: Urls, revision: str, tmp_path: Path) -> None:
    result = run_suite(f"{urls.with_key}/mcp", revision, tmp_path)

    scored = scored_scenarios(revision)
    assert scored and scored - result.scenarios == set()
    assert result.failures_of(scored) == {}
