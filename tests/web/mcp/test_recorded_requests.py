"""Requests of real clients, over the standard streams with a file and over HTTP."""

import fcntl
import json
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from tests.support.child import CHECKOUT
from tests.support.http import ask
from tests.support.mcp_sessions import REQUESTS, check_session, read_recording
from tests.support.program import COMMAND, environment_without_settings, run_as_process
from tests.support.waiting import wait_for
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


def test_a_slow_reader_gets_every_answer_after_the_end_of_its_requests(tmp_path: Path) -> None:
    begin = read_requests("stringified_arguments")[:2]
    lists = [
        json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/list"}).encode()
        for number in range(1, 41)
    ]
    with subprocess.Popen(
        [*COMMAND, "mcp", "--file", "x.db"],
        cwd=tmp_path,
        env=environment_without_settings() | {"PYTHONPATH": str(CHECKOUT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"\n".join([*begin, *lists, b""]))
        process.stdin.close()
        wait_for(lambda: bytes_in(process.stdout), "the first answer")
        time.sleep(0.2)  # the other answers fill the pipe
        answers = [json.loads(line) for line in process.stdout]

    assert sorted(answer["id"] for answer in answers) == list(range(41))
    assert all("result" in answer for answer in answers)


def bytes_in(pipe: IO[bytes]) -> int:
    """Return how many bytes wait in a pipe."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)


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
