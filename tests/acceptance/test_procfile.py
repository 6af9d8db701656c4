"""The processes of the Procfile, run by honcho and by hand: they start in any order and end
cleanly.
"""

import re
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator

import orjson
import pytest

from tests.support.client import Client
from tests.support.sessions import CHECKOUT, Reader
from tests.support.waiting import wait_for

BUNDLE = (CHECKOUT / "pipelines" / "memory_test.json").read_bytes()


@pytest.fixture
def reader() -> Iterator[Reader]:
    """Return a reader at a checkout; nothing runs yet."""
    with Reader() as reader:
        yield reader


def post(reader: Reader, path: str, body: bytes) -> dict[str, object]:
    """Return the answer to a POST to the web server."""
    wait_for(lambda: "web_ready" in reader.log, "the web server is ready")
    url = re.findall(r"url=(http://[^\s\x1b]+)", reader.log)[-1]
    with urllib.request.urlopen(url + path, body, timeout=120) as answer:
        found: dict[str, object] = orjson.loads(answer.read())
        return found


def write(reader: Reader, text: str) -> object:
    """Return the results of a /write."""
    return post(reader, "/v1/pipelines/p1/swarms/chat/messages?wait=60", f"/write {text}".encode())[
        "results"
    ]


def deploy(reader: Reader) -> None:
    """Deploy memory_test as p1."""
    post(reader, "/v1/pipelines", orjson.dumps(orjson.loads(BUNDLE) | {"pipeline_uid": "p1"}))
    wait_for(lambda: "pipelines_served" in reader.log, "it is served")


def launched(log: str) -> list[int]:
    """Return the process IDs of the launched bus servers."""
    return [int(pid) for pid in re.findall(r"embedded_server_launched.*?pid=(\d+)", log)]


def test_honcho_runs_all_three_and_ends_them_in_order(reader: Reader) -> None:
    honcho = subprocess.Popen(
        [".venv/bin/honcho", "--no-colour", "start"],
        cwd=reader.folder,
        env=reader.environment,
        stdin=subprocess.DEVNULL,
        stdout=reader.log_file,
        stderr=subprocess.STDOUT,
    )
    deploy(reader)
    written = write(reader, "tea")
    honcho.send_signal(signal.SIGTERM)
    honcho.wait(60)

    assert written
    assert len(launched(reader.log)) == 1
    assert not re.search(r"Traceback|stopped_with_work_pending", reader.log), reader.log
    assert re.findall(r"(\w+)\.1 +\| +.*?embedded_server_stopped", reader.log) == ["bus"]


def test_the_processes_start_in_any_order(reader: Reader) -> None:
    worker = reader.start(".venv/bin/memrelay worker", "")
    reader.start(".venv/bin/memrelay web", "")
    time.sleep(1)  # long enough for either to have started a server, if it did
    reader.start(".venv/bin/memrelay bus", "embedded_server_ready")
    deploy(reader)
    written = write(reader, "tea")

    reader.kill(worker)
    kept = post(reader, "/v1/pipelines/p1/swarms/chat/messages", b"/write coffee")
    reader.start(".venv/bin/memrelay worker", "pipelines_served")

    assert written and kept["message_id"]
    assert len(launched(reader.log)) == 1
    assert write(reader, "milk")
    with Client(reader.folder / "data/bus/server.sock") as client:
        assert len(client.answer("p1", "/read")) == 3
