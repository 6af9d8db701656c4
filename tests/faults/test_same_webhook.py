"""Row 6, over HTTP: ten concurrent webhooks with the same ID."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from tests.support.bundles import make_memory
from tests.support.http import Answer, ask
from tests.support.signing import make_secret, signed
from tests.support.web_system import WebSystem
from tests.support.webhook_senders import CASES

TIMES = 10
SECRET = make_secret("tea")


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem(secrets={"HOOK_SECRET": SECRET}) as web_system:
        yield web_system


def at_once(web_system: WebSystem, path: str, body: bytes, headers: dict[str, str]) -> list[Answer]:
    """Send on ten connections at the same moment."""
    barrier = Barrier(TIMES)

    def post(_: int) -> Answer:
        barrier.wait(60)
        return ask(web_system.url, "POST", path, body, headers)

    with ThreadPoolExecutor(TIMES) as threads:
        return list(threads.map(post, range(TIMES)))


@pytest.mark.parametrize("query", ["", "?wait=60"])
def test_ten_concurrent_copies_of_a_webhook_have_one_effect(
    web_system: WebSystem, query: str
) -> None:
    uid, body = (
        web_system.deploy(make_memory("write") | {"wf_webhook_secret": "env:HOOK_SECRET"}),
        b'{"event": "paid"}',
    )

    answers = at_once(
        web_system,
        f"/webhooks/{uid}/memory_write_{query}",
        body,
        signed(body, SECRET, ident="msg_7"),
    )

    assert {(answer.status, answer.body) for answer in answers} == {
        (answers[0].status, answers[0].body)
    }
    assert (answers[0].status, answers[0].json["message_id"]) == (200 if query else 202, "msg_7")
    web_system.system.client.await_quiet(uid)
    assert web_system.system.contents(uid) == ['{"event": "paid"}']
    assert web_system.system.client.unacknowledged(uid) == 0
    assert web_system.system.rows(uid, "PRAGMA integrity_check") == [("ok",)]


def test_ten_concurrent_webhooks_before_the_worker_starts_have_one_effect() -> None:
    with WebSystem(worker=False) as web_system:
        uid = web_system.deploy_unserved(make_memory("write"))

        answers = at_once(
            web_system, f"/webhooks/{uid}/memory_write_", b"tea", {"webhook-id": "msg_8"}
        )
        web_system.system.start_worker()
        web_system.system.client.await_quiet(uid, 30)

        assert {answer.body for answer in answers} == {b'{"message_id":"msg_8"}'}
        assert web_system.system.contents(uid) == ["tea"]


def test_an_id_belongs_to_one_agent_of_one_pipeline(web_system: WebSystem) -> None:
    """Alias and ID cannot be confused, whatever characters they contain."""
    uids = [
        web_system.deploy(
            make_memory("write", alias="a") | {"agent_alias": "a"},
            make_memory("write", alias="b") | {"agent_alias": "a/b"},
        )
        for _ in range(2)
    ]

    for uid in uids:
        for alias, ident in (("a", "b/c"), ("a%2Fb", "c"), ("a", "b/c"), ("a%2Fb", "c")):
            assert (
                web_system.webhook(
                    uid, alias, f"{alias} {ident}", query="?wait=60", webhook_id=ident
                ).status
                == 200
            )
        assert web_system.say(uid, "x", webhook_id="a/b/c", query="?wait=60").status == 200

    assert [web_system.system.contents(uid) for uid in uids] == [["a b/c", "a%2Fb c"]] * 2


@pytest.mark.parametrize("name", ["github", "stripe", "slack"])
def test_a_delivery_of_a_sender_has_one_effect_after_kills(name: str) -> None:
    """The id is in a header or in the body. Web server and worker are killed between copies."""
    case = next(case for case in CASES if case.name == name)
    agent = make_memory("write") | {
        "wf_webhook_sender": name,
        "wf_webhook_secret": "env:HOOK_SECRET",
    }
    with WebSystem(secrets={"HOOK_SECRET": case.secret}) as web_system:
        uid, workers = web_system.deploy(agent), web_system.system.workers
        path = f"/webhooks/{uid}/memory_write_"
        signed_now = case.sign(case.secret, case.body, int(time.time()), "")
        headers = {"Content-Type": case.content_type} | signed_now | case.headers

        def send() -> None:
            answers = at_once(web_system, path, case.body, headers)
            assert {answer.status for answer in answers} <= {200, 202}
            assert len({answer.body for answer in answers}) == 1

        workers[-1].kill()
        send()
        web_system.web.kill()
        web_system.start_web()
        send()
        web_system.system.start_worker()
        web_system.system.client.await_quiet(uid)
        workers[-1].kill()
        send()
        web_system.system.start_worker()
        send()
        web_system.system.client.await_quiet(uid)

        assert web_system.system.contents(uid) == [case.body.decode()]
        assert web_system.system.client.unacknowledged(uid) == 0
