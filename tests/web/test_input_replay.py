"""Kept inputs run again: under their idempotency keys with one effect, or as new inputs."""

import time
from collections.abc import Iterator
from typing import Any

import pytest

from memrelay.memory.models.inputs.packing import unpack
from tests.cli.serving import run_on
from tests.support.bundles import STORE, Json, make_agent, make_commands
from tests.support.calls import call
from tests.support.client import make_envelope
from tests.support.erasures import await_erasure
from tests.support.http import Answer
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem
from tests.support.worker import arm

DAY_MS = 86_400_000


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as web_system:
        yield web_system


def deploy(web_system: WebSystem, *more: Json, days: float = 7) -> str:
    return web_system.deploy(*make_commands(), *more, inputs_days=days)


def replay(web_system: WebSystem, uid: str, **body: Any) -> Answer:
    answer = web_system.post(f"/v1/pipelines/{uid}/inputs/replay", body)
    web_system.system.client.await_quiet(uid)
    return answer


def list_inputs(web_system: WebSystem, uid: str, query: str = "") -> list[Json]:
    items: list[Json] = web_system.get(f"/v1/pipelines/{uid}/inputs{query}").json["items"]
    return items


def write(web_system: WebSystem, uid: str, *texts: str, **fields: str) -> None:
    for text in texts:
        web_system.system.client.enter(uid, f"/write {text}", **fields)
    web_system.system.client.await_quiet(uid)


def test_an_input_of_six_days_ago_has_its_effects_once_unless_it_is_new(
    web_system: WebSystem,
) -> None:
    uid, client = deploy(web_system), web_system.system.client
    six_days_ago = time.time_ns() // 1_000_000 - 6 * DAY_MS
    client.enter_raw(uid, make_envelope("/write old"), ident=f"{six_days_ago}-0", id="its-key")
    # Without kept inputs, this key would let the older one expire.
    write(web_system, uid, "today", id="another")
    ended = six_days_ago + DAY_MS

    (kept,) = list_inputs(web_system, uid, f"?until={ended}")
    again = replay(web_system, uid, until=str(ended))

    assert (kept["id"], kept["key"], kept["remembered"]) == (f"{six_days_ago}-0", "its-key", True)
    assert (again.status, again.json["replayed"], again.json["next_cursor"]) == (200, 1, None)
    assert web_system.system.contents(uid) == ["old", "today"]
    for _ in range(2):
        new = replay(web_system, uid, until=str(ended), as_new=True, key="once")
    assert (new.status, new.json["replayed"], new.json["key"]) == (200, 1, "once")
    assert web_system.system.contents(uid) == ["old", "today", "old"]


def test_inputs_without_a_remembered_key_only_run_as_new_ones(web_system: WebSystem) -> None:
    uid = deploy(web_system)
    write(web_system, uid, "keyed", id="its-key")
    write(web_system, uid, "plain")

    refused = replay(web_system, uid)
    counted = replay(web_system, uid, as_new=True, dry_run=True)

    assert refused.status == 409
    assert "1 of 2 inputs" in refused.json["detail"]
    assert "as_new" in refused.json["detail"]
    assert (counted.status, counted.json["replayed"]) == (200, 2)
    assert web_system.system.contents(uid) == ["keyed", "plain"]


def test_a_replay_takes_the_inputs_of_an_agent_a_filter_and_a_period(
    web_system: WebSystem,
) -> None:
    keeper = make_agent("keeper", "memory_write", {"memory_id": STORE}, senders="nobody")
    uid = deploy(web_system, keeper)
    write(web_system, uid, "one", "two")
    assert web_system.webhook(uid, "keeper_", "hooked").status == 202
    made = call(
        web_system.system,
        uid,
        "records.create",
        {"content": "called"},
        store=STORE.replace("${pipeline_uid}", uid),
    )
    web_system.system.client.await_quiet(uid)
    assert made["guid"]
    items = list_inputs(web_system, uid)
    assert [(one["swarm"], one["agent"], one["operation"]) for one in items] == [
        ("chat", "", ""),
        ("chat", "", ""),
        ("", "keeper_", ""),
        ("", "", "records.create"),
    ]

    def count(**chosen: str) -> int:
        answer = replay(web_system, uid, as_new=True, dry_run=True, **chosen)
        assert answer.status == 200, answer
        return int(answer.json["replayed"])

    assert count(agent="keeper_") == 1
    assert count(filter="contains(text, 'two')") == 1
    assert count(filter="data.content == 'called'") == 1
    assert count(since=items[2]["at"]) == 2
    assert count(until=items[0]["at"]) == 0
    chosen: dict[str, Any] = {"as_new": True, "filter": "!contains(text, 'one')"}
    pages = [replay(web_system, uid, limit=3, **chosen)]
    following = {
        name: pages[0].json[of] for name, of in (("cursor", "next_cursor"), ("key", "key"))
    }
    pages.append(replay(web_system, uid, **chosen, **following))
    assert [page.json["replayed"] for page in pages] == [2, 1]
    assert web_system.system.contents(uid)[4:] == ["two", "hooked", "called"]
    # The replayed inputs are kept too, and do not run with their originals.
    assert len(list_inputs(web_system, uid)) == 7
    assert count() == 4
    for wrong in ({"filter": "text ="}, {"since": "soon"}, {"cursor": "x"}, {"limit": 0}, {"a": 1}):
        assert replay(web_system, uid, **wrong).status in (400, 422), wrong


def test_an_erased_record_is_in_no_kept_input(web_system: WebSystem) -> None:
    uid, system = deploy(web_system), web_system.system
    guid = system.client.answer(uid, "/write the zwitscherling sings")["guid"]
    write(web_system, uid, "kept")

    call(system, uid, "records.erase", {"guids": [guid]})
    await_erasure(system, uid)

    rows = system.rows(uid, "SELECT data FROM inputs")
    texts = [field for (data,) in rows for one in unpack(data) for field in one.fields]
    assert [text for text in texts if b"zwitscherling" in text or guid.encode() in text] == []
    assert any(b"/write kept" in text for text in texts)


def test_a_pipeline_without_kept_inputs_lists_none(web_system: WebSystem) -> None:
    uid = web_system.deploy()
    write(web_system, uid, "one")

    assert list_inputs(web_system, uid) == []
    assert replay(web_system, uid).json["replayed"] == 0


def test_a_replay_that_is_killed_and_repeated_has_each_effect_once(
    web_system: WebSystem,
) -> None:
    """Row 40 of docs/faults.md."""
    uid, system = deploy(web_system), web_system.system
    texts = [f"number {at}" for at in range(40)]
    system.client.enter_together(uid, [f"/write {text}" for text in texts])
    system.client.await_quiet(uid)
    system.workers[-1].kill()
    worker = system.start_stepping_worker(armed=False, die_on="committed")
    system.client.await_served(uid)
    body = {"as_new": True, "key": "k", "limit": 10}
    path = f"/v1/pipelines/{uid}/inputs/replay"
    wait_for(lambda: web_system.post(path, body | {"dry_run": True}).status == 200, "an owner")
    arm(worker)

    first = web_system.post(path, body)
    wait_for(lambda: not worker.lives, "the worker has killed itself")
    system.start_worker()
    done = run_on(system, "replay", uid, "--as-new", "--key", "k", "--wait", "60")

    assert (first.status, first.json["replayed"]) == (200, 10)
    assert done.code == 0, done
    assert done.lines[-1] == {"pipeline_uid": uid, "key": "k", "replayed": 40, "of": 40}
    system.client.await_quiet(uid)
    assert system.contents(uid) == [*texts, *texts]
    refused = run_on(system, "replay", uid, "--wait", "60")
    assert refused.code == 1
    assert "--as-new" in refused.err
    counted = run_on(system, "replay", uid, "--as-new", "--dry-run", "--wait", "60")
    assert counted.lines == [{"pipeline_uid": uid, "inputs": 40}]


@pytest.mark.slow  # the pause between two rounds of the expiry
def test_the_expiry_deletes_inputs_older_than_the_bundle_asks_for(web_system: WebSystem) -> None:
    uid, system = deploy(web_system), web_system.system
    eight_days_ago = time.time_ns() // 1_000_000 - 8 * DAY_MS
    system.client.enter_raw(uid, make_envelope("/write old"), ident=f"{eight_days_ago}-0")
    write(web_system, uid, "today")

    wait_for(
        lambda: system.rows(uid, "SELECT count(*) FROM inputs") == [(1,)], "the old row is deleted"
    )

    assert system.contents(uid) == ["old", "today"]
