"""Rehearsals of a running pipeline: over HTTP, and what an erasure leaves of them."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bundles import Json, make_bundle, make_memory, make_relay
from tests.support.http import ask
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

WRITE, KEEP = make_relay("write", "^/write (.*)", flags="s"), make_memory("write")
RELAYED = make_relay("write", "^/write (t.*)", flags="s")


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as web_system:
        yield web_system


def deploy(web_system: WebSystem, *texts: str) -> str:
    """Deploy a pipeline that keeps its inputs, and send it messages."""
    uid = web_system.deploy(WRITE, KEEP, inputs_days=7)
    for text in texts:
        web_system.say(uid, text)
    return uid


def rehearse(web_system: WebSystem, uid: str, *agents: Json, **given: Any) -> Any:
    """Run a rehearsal to its end, and return it with its report."""
    path = f"/v1/pipelines/{uid}/rehearsals"
    made = web_system.post(path, {"bundle": make_bundle(uid, *agents)} | given)
    assert made.status == 201, made
    assert made.json["status"] == "running"
    address = f"{path}/{made.json['id']}"
    assert made.headers["location"] == address
    wait_for(lambda: web_system.get(address).json["status"] != "running", "it ended", 30)
    return web_system.get(address).json


def test_a_rehearsal_runs_while_the_pipeline_serves(web_system: WebSystem) -> None:
    uid = deploy(web_system, "/write tea", "/write coffee")

    done = rehearse(web_system, uid, RELAYED, KEEP)

    assert (done["status"], done["equal"]) == ("done", False), done
    assert done["counts"]["records_missing"] == 1
    assert done["report"]["records"][0]["then"]["content"] == "coffee"
    path = f"/v1/pipelines/{uid}/rehearsals"
    (listed,) = web_system.get(path).json["items"]
    assert listed["id"] == done["id"]
    assert ask(web_system.url, "DELETE", f"{path}/{done['id']}").status == 204
    assert web_system.get(path).json["items"] == []
    assert web_system.get(f"{path}/{done['id']}").status == 404
    records = web_system.get(f"/v1/pipelines/{uid}/records").json["items"]
    assert [one["content"] for one in records] == ["coffee", "tea"]
