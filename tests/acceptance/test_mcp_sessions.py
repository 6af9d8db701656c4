"""Real clients list the tools, write, recall and change, with free-form arguments of their own."""

import sys
from collections.abc import Iterator, Sequence

import pytest

from tests.support.keys import await_closed, make_key
from tests.support.mcp_sessions import (
    FRAMEWORK_CALLS,
    N8N_CALLS,
    Call,
    check_session,
    read_recording,
    recording,
    run_client,
)
from tests.support.web_system import WebSystem

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(WEB__RATE="0") as web_system:
        yield web_system


def run_session(
    web_system: WebSystem, client: str, program: str, python: str, calls: Sequence[Call]
) -> None:
    """Run a client, and compare its requests with those that the default tier sends."""
    uid, key = web_system.deploy(), make_key(web_system.system.root).text
    await_closed(web_system)

    with recording(web_system.url) as (url, requests):
        tools, *answers = run_client(program, python, f"{url}/mcp/{uid}", key, calls)

    check_session(tools, answers)
    sent = [request.call for request in requests if request.call]
    recorded = [request.call for request in read_recording(client) if request.call]
    guid = sent[-1][1]["guid"]
    assert sent == [
        (name, given | {"guid": guid} if "guid" in given else given) for name, given in recorded
    ]


def test_the_calls_of_n8n_work(web_system: WebSystem) -> None:
    run_session(web_system, "n8n", "n8n.mjs", "", N8N_CALLS)


def test_the_calls_of_the_ai_sdk_work(web_system: WebSystem) -> None:
    run_session(web_system, "ai_sdk", "ai_sdk.mjs", "", FRAMEWORK_CALLS)


def test_the_calls_of_the_agents_sdk_work(web_system: WebSystem) -> None:
    program = "openai_agents.py"

    run_session(web_system, "openai_agents", program, sys.executable, FRAMEWORK_CALLS)


def test_the_calls_of_langchain_work(web_system: WebSystem, langchain: str) -> None:
    run_session(web_system, "langchain", "langchain_adapter.py", langchain, FRAMEWORK_CALLS)
