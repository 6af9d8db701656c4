"""Rehearsals of a running pipeline: over HTTP, and what an erasure leaves of them."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.bundles import Json, make_bundle, make_memory, make_relay
from tests.support.calls import call
from tests.support.erasures import await_erasure, files_with
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
    records = f"/v1/pipelines/{uid}/records"
    wait_for(lambda: len(web_system.get(records).json["items"]) == len(texts), "they are stored")
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
    assert {one["content"] for one in records} == {"coffee", "tea"}


def test_messages_are_rehearsed_without_kept_inputs(web_system: WebSystem) -> None:
    uid = web_system.deploy(WRITE, KEEP)
    messages = [{"text": "/write coffee"}, {"text": "/write tea", "user": "User"}]

    done = rehearse(web_system, uid, RELAYED, KEEP, messages=messages)
    nothing = rehearse(web_system, uid, WRITE, KEEP)

    assert done["counts"]["records_missing"] == 1, done
    assert nothing["status"] == "failed" and "set `inputs_days`" in nothing["reason"]
    assert web_system.get(f"/v1/pipelines/{uid}/records").json["items"] == []


def test_an_erasure_removes_reports_and_copies(web_system: WebSystem) -> None:
    uid = deploy(web_system, "/write the secret of Ada")
    done = rehearse(web_system, uid, KEEP)
    assert done["report"]["records"][0]["then"]["content"] == "the secret of Ada"
    assert any("rehearsals" in path for path in files_with(web_system.system, b"secret of ada"))
    path = f"/v1/pipelines/{uid}/rehearsals"
    running = web_system.post(path, {"bundle": make_bundle(uid, KEEP)}).json["id"]

    (record,) = web_system.get(f"/v1/pipelines/{uid}/records").json["items"]
    call(web_system.system, uid, "records.erase", {"guids": [record["guid"]]})
    await_erasure(web_system.system, uid)

    assert files_with(web_system.system, b"secret of ada") == []
    assert web_system.get(f"{path}/{done['id']}").status == 404
    stopped = web_system.get(f"{path}/{running}").json
    assert stopped["status"] == "failed" and "records were erased" in stopped["reason"]


def test_one_rehearsal_runs_at_a_time(web_system: WebSystem) -> None:
    uid = deploy(web_system, "/write tea")
    path, body = f"/v1/pipelines/{uid}/rehearsals", {"bundle": make_bundle(uid, KEEP)}
    first = web_system.post(path, body).json["id"]

    again = web_system.post(path, body)
    other = web_system.post(path, body | {"until": "2999-01-01"})
    late = web_system.post(path, body | {"since": "yesterday"})

    assert again.json["id"] == first
    assert other.problem[0] == 422 and "one at a time" in other.problem[1]
    assert "`since` must be a time" in late.problem[1]
    assert ask(web_system.url, "DELETE", f"{path}/{first}").status == 204
    wait_for(lambda: web_system.get(f"{path}/{first}").status == 404, "it is gone", 30)
    left = [one.name for one in web_system.system.root.glob(".rehearsal-*")]
    assert left == []
