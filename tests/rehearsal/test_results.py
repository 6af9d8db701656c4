"""Rehearsals take the kept results of requests and turns; nothing is asked again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from memrelay.memory.engine.timestamps import LAST_MS
from memrelay.memory.models.inputs.packing import KeptInput, KeptResult, unpack
from memrelay.pipelines.check import check
from memrelay.pipelines.checked import CheckedBundle
from memrelay.pipelines.plan import Plan
from memrelay.rehearsal.child import rehearse
from memrelay.rehearsal.copies import copy_stores
from memrelay.rehearsal.results import KeptResults
from memrelay.rehearsal.setup import THEN, DeployedBundle, Setup, write_setup
from memrelay.worker.deferred_calls.stored import make_request_digest
from tests.rehearsal.test_rerun import STATE, read_state
from tests.support.bundles import Json, make_agent, make_bundle, make_memory, make_relay
from tests.support.calls import call
from tests.support.erasures import await_erasure, files_with
from tests.support.model_server import ModelServer, calls
from tests.support.waiting import wait_for
from tests.support.web_service import WebService
from tests.support.web_system import WebSystem
from tests.worker.test_request_digests import SUBSCRIBER, make_pending

ASK = make_relay("ask", "^/ask (.*)", flags="s")


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(worker=False) as web_system:
        web_system.system.start_worker(outgoing={"open_for": ["http", "models"]})
        yield web_system


def asking(url: str, kind: str = "observation") -> list[Json]:
    """Return agents that ask a service and keep its answers."""
    bot = make_agent("bot", "http_request", {"url": url}, senders="dispatch_ask")
    return [ASK, bot, make_memory("write", senders="bot", kind=kind)]


def await_records(web_system: WebSystem, uid: str, count: int) -> list[Json]:
    path = f"/v1/pipelines/{uid}/records"

    def find() -> list[Json]:
        items: list[Json] = web_system.get(path).json["items"]
        return items if len(items) == count else []

    return wait_for(find, f"{uid} has {count} records")


class Deployed:
    """A pipeline of a worker, whose inputs are rehearsed in this process."""

    def __init__(self, web_system: WebSystem, folder: Path, agents: list[Json]) -> None:
        self.uid, self._folder = web_system.deploy(*agents, inputs_days=7), folder
        self._root, self._count = web_system.system.root, 0
        self._served = self._check(agents)

    def _check(self, agents: list[Json]) -> CheckedBundle:
        return check(make_bundle(self.uid, *agents, inputs_days=7)).accepted()

    def rehearse(self, agents: list[Json]) -> Any:
        """Return the report of a rehearsal."""
        self._count += 1
        folder, served = self._folder / f"r{self._count}", self._served
        folder.mkdir()
        copied = copy_stores(self._root, folder, self.uid, Plan(served).all_stores, (None, LAST_MS))
        versions = [DeployedBundle(1, 0, served.hash, served.source)]
        period = 0, copied.since_ms, LAST_MS
        setup = Setup("r", self.uid, *period, versions, self._check(agents).source)
        write_setup(folder, setup, copied.inputs, copied.results)
        return rehearse(folder)


def test_a_request_gets_its_kept_answer_while_the_service_is_off(
    web_system: WebSystem, tmp_path: Path
) -> None:
    with WebService() as service:
        url = f"{service.url}/prices/{{{{ text }}}}"
        service.script += [(200, b'{"price": 1}'), (404, b'{"price": 2}')]
        live = Deployed(web_system, tmp_path, asking(url))
        for count, text in enumerate(("/ask tea", "/ask milk"), 1):
            web_system.say(live.uid, text)
            await_records(web_system, live.uid, count)

    same = live.rehearse(asking(url))
    other = live.rehearse(asking(url, "price"))
    elsewhere = live.rehearse(asking(f"{url}?in=euro"))

    assert same["equal"] and same["inputs"]["not_rehearsed"] == 0, same
    assert other["inputs"]["not_rehearsed"] == 0 and other["requests"] == [], other
    prices = [one["then"]["content"] for one in other["records"]]
    assert ['"price":1' in prices[0], '"price":2' in prices[1]] == [True, True]
    assert other["counts"]["records_changed"] == 2
    assert elsewhere["inputs"]["not_rehearsed"] == 2, elsewhere
    assert "bot_ waits for the answer" in elsewhere["inputs"]["reasons"][0]["reason"]
    assert "?in=euro" in elsewhere["requests"][0]["candidate"]["request"]
    counts = {name: count for name, count in elsewhere["counts"].items() if count}
    assert counts == {"requests": 2}
    assert len(service.received) == 2


def test_a_turn_of_an_agent_gets_its_kept_answer(web_system: WebSystem, tmp_path: Path) -> None:
    """The rerun equals the live store. A changed prompt has no answer, and what the tools of the
    turn wrote is left out too.
    """

    def turning(prompt: str, kind: str = "observation") -> list[Json]:
        args = {"url": model.url, "model": "stub", "system_prompt": prompt, "tools": ["remember"]}
        bot = make_agent("bot", "agent", args, senders="User")
        return [bot, make_memory("write", senders="bot", kind=kind)]

    remember = calls(("remember", {"key": "drink", "value": "tea"}))
    with ModelServer(remember, "Tea, then.") as model:
        live = Deployed(web_system, tmp_path, turning("Be kind."))
        web_system.say(live.uid, "I drink tea")
        await_records(web_system, live.uid, 1)

    other = live.rehearse(turning("Be kind.", "reply"))
    changed = live.rehearse(turning("Be brief."))

    assert other["inputs"] == {"rehearsed": 3, "not_rehearsed": 0, "reasons": []}
    rerun = read_state(tmp_path / "r1" / THEN, f"instances/{live.uid}/memories")
    assert [*map(tuple, web_system.system.rows(live.uid, STATE))] == [*map(tuple, rerun)]
    assert len(rerun) > 2
    (record,) = other["records"]
    assert record["then"]["content"] == "Tea, then."
    assert record["fields"] == {"kind": ["observation", "reply"]}
    first, second = changed["inputs"]["reasons"]
    assert (first["count"], second["count"]) == (1, 2)
    assert "bot_ waits for the answer" in first["reason"]
    assert "an operation of a request of bot_" in second["reason"]
    assert {name: count for name, count in changed["counts"].items() if count} == {"requests": 1}


def test_equal_requests_of_an_input_get_their_own_results() -> None:
    asking, other = make_pending({"url": "a"}), make_pending({"url": "b"})
    digest = make_request_digest(asking, SUBSCRIBER)
    ids = [f"p/1-0.{number}+0" for number in (0, 1, 2)]
    kept = [
        KeptInput(1, 0, "", [], "", KeptResult(digest, "bot_", one, one.encode())) for one in ids
    ]
    results = KeptResults(kept)
    operation = KeptInput(2, 0, "", [b"op", b"facts.set", b"id", f"{ids[1]}/=0/0".encode()])

    assert results.take(other, SUBSCRIBER) is None
    assert results.take(asking._replace(root="2-0"), SUBSCRIBER) is None
    assert (results.find_caller(operation), results.is_taken(operation)) == ("bot_", False)
    # The call of `asking` has the second id.
    taken = [results.take(asking, SUBSCRIBER) for _ in range(4)]
    assert taken == [b"p/1-0.1+0", b"p/1-0.0+0", b"p/1-0.2+0", None]
    assert results.is_taken(operation)


@pytest.mark.slow
def test_a_rehearsal_on_a_worker_takes_the_kept_answers(web_system: WebSystem) -> None:
    with WebService() as service:
        uid = web_system.deploy(*asking(service.url), inputs_days=7)
        web_system.say(uid, "/ask tea")
        await_records(web_system, uid, 1)

    path = f"/v1/pipelines/{uid}/rehearsals"
    bundle = make_bundle(uid, *asking(service.url, "price"), inputs_days=7)
    address = f"{path}/{web_system.post(path, {'bundle': bundle}).json['id']}"
    wait_for(lambda: web_system.get(address).json["status"] != "running", "it ended", 30)

    report = web_system.get(address).json["report"]
    assert report["inputs"]["rehearsed"] == 1, report
    assert '"ok":true' in report["records"][0]["candidate"]["content"]


def test_an_erasure_leaves_no_answer(web_system: WebSystem) -> None:
    with WebService() as service:
        service.script += [(200, b'{"name": "Ada Lovelace"}'), (200, b'{"name": "Alan"}')]
        uid = web_system.deploy(*asking(service.url), inputs_days=7)
        for count in (1, 2):
            web_system.say(uid, "/ask who")
            records = await_records(web_system, uid, count)

    (ada,) = [one for one in records if "Ada" in one["content"]]
    call(web_system.system, uid, "records.erase", {"guids": [ada["guid"]]})
    await_erasure(web_system.system, uid)

    rows = web_system.system.rows(uid, "SELECT data FROM inputs ORDER BY n")
    results = [one.result.data for (row,) in rows for one in unpack(row) if one.result is not None]
    assert len(results) == 1 and b"Alan" in results[0]
    assert files_with(web_system.system, b"lovelace") == []
