"""Requests of real clients, over the standard streams with a file and over HTTP."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.http import ask
from tests.support.mcp_sessions import REQUESTS, check_session, read_recording
from tests.support.program import environment_without_settings, run_as_process
from tests.support.web_system import WebSystem

Json = dict[str, Any]
# Sends the lines of a file, and returns the answers by the ids of the requests.
Send = Callable[[str], dict[int, Json]]
HEADERS = {
    "Accept": "application/json, text/event-stream",
    "Content-Type": "application/json",
    "MCP-Protocol-Version": "2025-06-18",
}


def read_requests(name: str) -> list[bytes]:
    return (REQUESTS / f"{name}.jsonl").read_bytes().splitlines()


@pytest.fixture(params=["file", "http"])
def send(request: pytest.FixtureRequest, tmp_path: Path) -> Send:
    """Return the function that sends requests to a new file or a new pipeline."""
    if request.param == "file":
        return lambda name: send_to_file(name, tmp_path)
    return lambda name: send_to_pipeline(name, request.getfixturevalue("web_system"))


def send_to_file(name: str, folder: Path) -> dict[int, Json]:
    ended = run_as_process(
        ["mcp", "--file", "x.db"],
        folder,
        environment_without_settings(),
        b"\n".join([*read_requests(name), b""]),
        fresh=True,
    )
    return {one["id"]: one for one in map(json.loads, ended.out.splitlines())}


def send_to_pipeline(name: str, web_system: WebSystem) -> dict[int, Json]:
    path = f"/mcp/{web_system.deploy()}"
    sent = [ask(web_system.url, "POST", path, line, HEADERS) for line in read_requests(name)]
    assert {answer.status for answer in sent} == {200, 202}
    return {one["id"]: one for one in (json.loads(each.body) for each in sent if each.body)}


def test_arguments_that_n8n_adds_are_ignored(send: Send) -> None:
    answers = send("n8n_extra_arguments")

    assert [answers[number]["result"]["isError"] for number in (1, 2)] == [False, False]
    assert answers[2]["result"]["structuredContent"]["action"] == "created"


def test_numbers_and_lists_in_texts_are_read(send: Send) -> None:
    answers = send("stringified_arguments")

    assert [answers[number]["result"]["isError"] for number in range(1, 6)] == [False] * 5
    (found,) = answers[4]["result"]["structuredContent"]["entities"]
    assert found["observations"] == ["likes tea"]


def test_absent_null_and_empty_arguments_are_the_same(send: Send) -> None:
    answers = send("graph_no_arguments")

    graphs = [answers[number]["result"]["structuredContent"] for number in range(1, 5)]
    assert graphs == [{"entities": [], "relations": []}] * 4


@pytest.mark.parametrize("client", ["n8n", "openai_agents", "langchain", "ai_sdk"])
def test_a_recorded_session_of_a_client_gets_its_answers(
    web_system: WebSystem, client: str
) -> None:
    path, guid, tools = f"/mcp/{web_system.deploy()}", "", []
    answers: list[Json] = []

    for request in read_recording(client):
        body = json.dumps(request.body).replace("$GUID", guid).encode()
        answer = ask(web_system.url, "POST", path, body, dict(request.headers))
        assert answer.status in (200, 202), answer
        if request.body["method"] == "tools/list":
            tools = [one["name"] for one in answer.json["result"]["tools"]]
        elif request.call is not None:
            result = answer.json["result"]
            text = "".join(block["text"] for block in result["content"])
            answers.append({"error": result["isError"], "text": text})
            guid = guid or json.loads(text)["guid"]

    check_session(tools, answers)
