"""Receipts name the records that an answer was based on, and prove it (docs/receipts.md)."""

import asyncio
import random
from collections.abc import Iterator
from typing import Any

import pytest

from memrelay.bus.client.url import Address
from memrelay.bus.request import Requester
from memrelay.cli.commands.receipt import verify_receipt
from tests.cli.serving import run_on
from tests.support.bundles import (
    Json,
    make_agent,
    make_bundle,
    make_commands,
    make_memory,
    make_relay,
)
from tests.support.calls import WITHIN_S, call, make_call
from tests.support.erasures import await_erasure, files_with
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

WORDS = ("tea", "milk", "sugar", "lemon", "green", "black", "cup", "pot")


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as web_system:
        yield web_system


def make_agents(**args: Any) -> list[Json]:
    """Return the commands, whose search leaves receipts."""
    agents = [one for one in make_commands() if one["agent_alias"] != "memory_search_"]
    return [*agents, make_memory("search", **args) | {"receipts": True}]


def write(web_system: WebSystem, uid: str, content: str, **fields: Any) -> str:
    guid: str = call(web_system.system, uid, "records.create", {"content": content} | fields)[
        "guid"
    ]
    return guid


def list_receipts(web_system: WebSystem, uid: str, **given: Any) -> list[Json]:
    items: list[Json] = call(web_system.system, uid, "receipts.list", given)["items"]
    return items


def await_receipts(web_system: WebSystem, uid: str, count: int) -> list[Json]:
    """Wait for the receipts of calls, which are written after up to a second."""
    wait_for(lambda: len(list_receipts(web_system, uid)) >= count, "the receipts are written")
    return list_receipts(web_system, uid)


def verify(web_system: WebSystem, uid: str, ident: str) -> Json:
    ended = run_on(web_system.system, "receipt", uid, ident, "--verify")
    assert ended.lines, ended
    found: Json = ended.lines[0]
    return found


def test_a_block_leaves_a_receipt_with_its_answer(web_system: WebSystem) -> None:
    uid = web_system.deploy(*make_agents())
    guid = write(web_system, uid, "Ada likes tea")
    message = web_system.say(uid, {"text": "/search tea"}, query="?wait=60").json["message_id"]

    (receipt,) = list_receipts(web_system, uid)
    assert (receipt["operation"], receipt["question"]["query"]) == ("records.search", "tea")
    assert (receipt["agent"], receipt["message"]) == ("memory_search_", message)
    assert [(one["guid"], one["version"]) for one in receipt["found"]] == [(guid, 1)]
    assert list_receipts(web_system, uid, message=message, record=guid) == [receipt]
    assert list_receipts(web_system, uid, message="1-0") == []
    assert list_receipts(web_system, uid, record="another") == []

    call(web_system.system, uid, "records.update", {"guid": guid, "content": "Ada likes milk"})
    (use,) = call(web_system.system, uid, "records.uses", {"guid": guid})["items"]
    assert (use["message"], use["version"], use["is_present"]) == (message, 1, False)
    verdict = {"id": receipt["id"], "verified": True, "changed": {}}
    assert verify(web_system, uid, receipt["id"]) == verdict


def test_the_console_shows_the_uses_of_a_record_and_what_an_answer_remembered(
    web_system: WebSystem,
) -> None:
    uid = web_system.deploy(*make_agents())
    guid = write(web_system, uid, "Ada likes tea")
    path = f"/pipelines/{uid}/memory/{guid}"
    assert b"Used in" not in web_system.get(path).body
    said = web_system.say(uid, {"text": "/search tea"}, query="?wait=60").json["message_id"]
    call(web_system.system, uid, "records.update", {"guid": guid, "content": "Ada likes milk"})

    page = web_system.get(path).body.decode()
    assert "Used in 1 answer<" in page and f"/messages/{said}" in page
    assert "version 1, which is no longer current" in page
    trace = web_system.get(f"/pipelines/{uid}/messages/{said}").body.decode()
    assert "Remembered" in trace and f"/memory/{guid}" in trace


def test_a_block_without_receipts_leaves_none(web_system: WebSystem) -> None:
    uid = web_system.deploy(*make_commands())
    write(web_system, uid, "tea")
    web_system.say(uid, {"text": "/search tea"}, query="?wait=60")
    assert list_receipts(web_system, uid) == []


def test_recall_leaves_a_receipt_of_each_of_its_reads(web_system: WebSystem) -> None:
    recall = make_agent("know", "recall", {}, senders="dispatch_ask") | {"receipts": True}
    uid = web_system.deploy(*make_commands(), make_relay("ask", "^/ask (.*)"), recall)
    facts = [
        call(web_system.system, uid, "facts.set", {"key": key, "value": "green"})["fact"]["id"]
        for key in ("color", "tea")
    ]
    web_system.say(uid, {"text": "/ask color"}, query="?wait=60")
    web_system.say(uid, {"text": '/ask {"query": "green"}'}, query="?wait=60")

    search, get = list_receipts(web_system, uid)
    assert (get["operation"], [one["guid"] for one in get["found"]]) == ("facts.get", facts[:1])
    assert search["operation"] == "facts.search"
    assert sorted(one["guid"] for one in search["found"]) == sorted(facts)
    assert verify(web_system, uid, search["id"])["verified"]


def test_a_call_leaves_a_receipt_if_it_asks_for_one(web_system: WebSystem) -> None:
    uid = web_system.deploy(*make_commands())
    write(web_system, uid, "tea")
    path = f"/v1/pipelines/{uid}/search"
    body = {"query": "tea", "receipt": True}
    assert "memrelay-receipt" not in web_system.get(f"{path}?query=tea").headers
    ident = web_system.post(f"/v1/pipelines/{uid}/records/search", body).headers["memrelay-receipt"]
    (receipt,) = await_receipts(web_system, uid, 1)
    assert (receipt["id"], receipt["message"], receipt["agent"]) == (ident, "", "")

    # One that names the answer is there before the call is answered.
    call(web_system.system, uid, "records.search", body | {"receipt": "answer-42"})
    (named,) = list_receipts(web_system, uid, message="answer-42")
    assert named["actor"] == "tester"
    assert verify(web_system, uid, named["id"])["verified"]


def test_a_recall_of_a_fact_leaves_its_receipt_in_its_transaction(web_system: WebSystem) -> None:
    uid = web_system.deploy(*make_commands())
    fact = call(web_system.system, uid, "facts.set", {"key": "tea", "value": "green"})["fact"]
    call(web_system.system, uid, "facts.recall", {"key": "tea", "receipt": "answer-1"})

    (receipt,) = list_receipts(web_system, uid, message="answer-1")
    assert (receipt["operation"], receipt["question"]) == ("facts.recall", {"key": "tea"})
    assert [(one["guid"], one["version"]) for one in receipt["found"]] == [(fact["id"], 1)]


def test_searches_of_documents_and_items_leave_receipts(web_system: WebSystem) -> None:
    uid = web_system.deploy(*make_commands())
    given = {"collection": "docs", "uri": "a", "text": "green tea from the hills"}
    call(web_system.system, uid, "documents.put", given)
    guid = write(web_system, uid, "green tea in a pot")
    for number, collection in enumerate(("docs", f"store:instances/{uid}/memories")):
        asked = {"collection": collection, "query": "tea", "mode": "fts", "receipt": f"a{number}"}
        found = call(web_system.system, uid, "documents.search", asked)["items"]
        (receipt,) = list_receipts(web_system, uid, message=f"a{number}")
        named = [(one["guid"], one["version"]) for one in receipt["found"]]
        assert named == [(found[0]["id"], 1)]
    assert found[0]["id"] == guid
    refused = run_on(web_system.system, "receipt", uid, receipt["id"], "--verify")
    assert refused.code != 0 and "several stores" in refused.err

    item = {"agent": "a1", "store": "a1", "key": "drink", "value": "jasmine tea"}
    call(web_system.system, uid, "items.put", item)
    asked = {"agent": "a1", "query": "tea", "receipt": "b"}
    call(web_system.system, uid, "items.search", asked)
    (receipt,) = list_receipts(web_system, uid, message="b")
    assert [one["version"] for one in receipt["found"]] == [1]


def test_a_bundle_can_keep_digests_of_the_questions(web_system: WebSystem) -> None:
    uid = web_system.deploy(*make_agents(), receipts_question="digest")
    write(web_system, uid, "tea")
    web_system.say(uid, {"text": "/search tea"}, query="?wait=60")
    call(web_system.system, uid, "records.search", {"query": "tea", "receipt": "a"})

    for receipt in list_receipts(web_system, uid):
        assert list(receipt["question"]) == ["digest"]
        refused = run_on(web_system.system, "receipt", uid, receipt["id"], "--verify")
        assert refused.code != 0 and "only digests" in refused.err


def test_an_erasure_blanks_receipts_and_keeps_which_answers_used_a_record(
    web_system: WebSystem,
) -> None:
    uid = web_system.deploy(*make_agents())
    guid = write(web_system, uid, "swordfish")
    message = web_system.say(uid, {"text": "/search swordfish"}, query="?wait=60").json[
        "message_id"
    ]
    # Its receipt still waits when the erasure begins.
    call(web_system.system, uid, "records.search", {"query": "swordfish", "receipt": True})
    call(web_system.system, uid, "records.erase", {"guids": [guid], "text": "swordfish"})
    await_erasure(web_system.system, uid)

    assert files_with(web_system.system, b"swordfish") == []
    receipts = list_receipts(web_system, uid)
    assert [one["question"] for one in receipts] == [None, None]
    uses = call(web_system.system, uid, "records.uses", {"guid": guid})["items"]
    assert [one["message"] for one in uses] == ["", message]


def test_verify_names_what_has_changed_besides_the_records(web_system: WebSystem) -> None:
    agents = make_agents(mode="hybrid")
    uid = web_system.deploy(*agents)
    write(web_system, uid, "running shoes")
    ask = {"query": "run", "mode": "hybrid", "receipt": "a"}
    call(web_system.system, uid, "records.search", ask)
    (receipt,) = list_receipts(web_system, uid)
    store = {"memory_id": receipt["store"], "language": "none"}
    bundle = make_bundle(uid, *agents) | {"stores": [store]}
    web_system.system.deploy(bundle)
    verdicts = list[Json]()

    def has_another_language() -> bool:
        # It prints nothing while the pipeline is deployed.
        ended = run_on(web_system.system, "receipt", uid, receipt["id"], "--verify")
        verdicts.extend(ended.lines)
        return bool(verdicts) and "language" in verdicts[-1]["changed"]

    wait_for(has_another_language, "the new version serves")

    # The embedder may differ too: it loads at the first search.
    (then,) = receipt["found"]
    assert verdicts[-1]["changed"]["language"] == {"then": "english", "now": "none"}
    assert not verdicts[-1]["verified"] and verdicts[-1]["then"] == [then]


@pytest.mark.parametrize("count", [20, pytest.param(1000, marks=pytest.mark.slow)])
def test_receipts_reproduce_after_random_changes(web_system: WebSystem, count: int) -> None:
    uid, rng = web_system.deploy(*make_agents()), random.Random(count)
    guids = [write(web_system, uid, _make_text(rng)) for _ in range(10)]
    for number in range(count):
        query = " ".join(rng.sample(WORDS, 2))
        mode = rng.choice(["fts", "hybrid"])
        given = {"query": query, "mode": mode, "receipt": f"answer-{number}"}
        call(web_system.system, uid, "records.search", given)
        _change(web_system, uid, guids, rng)

    assert _verify_all(web_system, uid) == [True] * count


def _make_text(rng: random.Random) -> str:
    return " ".join(rng.choices(WORDS, k=5))


def _change(web_system: WebSystem, uid: str, guids: list[str], rng: random.Random) -> None:
    at, kind = rng.randrange(len(guids)), rng.choice(["create", "update", "delete"])
    if kind == "create" or len(guids) < 5:
        guids.append(write(web_system, uid, _make_text(rng)))
    elif kind == "update":
        given = {"guid": guids[at], "content": _make_text(rng)}
        call(web_system.system, uid, "records.update", given)
    else:
        call(web_system.system, uid, "records.delete", {"guid": guids.pop(at)})


def _verify_all(web_system: WebSystem, uid: str) -> list[bool]:
    client = web_system.system.client

    async def whole() -> list[bool]:
        async with Requester(Address(path=str(client.socket), password=client.password)) as one:
            answer = await one.call(make_call(uid, "receipts.list", {"limit": 1000}), WITHIN_S)
            receipts = answer["output"]["items"]
            return [(await verify_receipt(one, uid, it, WITHIN_S))["verified"] for it in receipts]

    return asyncio.run(whole())
