"""Row 6, over HTTP: ten concurrent webhooks with the same ID."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from tests.support.bundles import make_memory
from tests.support.http import Answer, ask
from tests.support.served import Served
from tests.support.signing import make_secret, signed

TIMES = 10
SECRET = make_secret("tea")


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with Served(secrets={"HOOK_SECRET": SECRET}) as served:
        yield served


def at_once(served: Served, path: str, body: bytes, headers: dict[str, str]) -> list[Answer]:
    """Send on ten connections at the same moment."""
    barrier = Barrier(TIMES)

    def post(_: int) -> Answer:
        barrier.wait(60)
        return ask(served.url, "POST", path, body, headers)

    with ThreadPoolExecutor(TIMES) as threads:
        return list(threads.map(post, range(TIMES)))


@pytest.mark.parametrize("query", ["", "?wait=60"])
def test_ten_concurrent_copies_of_a_webhook_have_one_effect(served: Served, query: str) -> None:
    uid, body = (
        served.deploy(make_memory("write") | {"wf_webhook_secret": "env:HOOK_SECRET"}),
        b'{"event": "paid"}',
    )

    answers = at_once(
        served, f"/webhooks/{uid}/memory_write_{query}", body, signed(body, SECRET, ident="msg_7")
    )

    assert {(answer.status, answer.body) for answer in answers} == {
        (answers[0].status, answers[0].body)
    }
    assert (answers[0].status, answers[0].json["message_id"]) == (200 if query else 202, "msg_7")
    served.house.client.await_quiet(uid)
    assert served.house.contents(uid) == ['{"event": "paid"}']
    assert served.house.client.unacknowledged(uid) == 0
    assert served.house.rows(uid, "PRAGMA integrity_check") == [("ok",)]


def test_ten_concurrent_webhooks_before_the_worker_starts_have_one_effect() -> None:
    with Served(worker=False) as served:
        uid = served.deploy_unserved(make_memory("write"))

        answers = at_once(served, f"/webhooks/{uid}/memory_write_", b"tea", {"webhook-id": "msg_8"})
        served.house.start_worker()
        served.house.client.await_quiet(uid, 30)

        assert {answer.body for answer in answers} == {b'{"message_id":"msg_8"}'}
        assert served.house.contents(uid) == ["tea"]


def test_an_id_belongs_to_one_agent_of_one_pipeline(served: Served) -> None:
    """Alias and ID cannot be confused, whatever characters they contain."""
    uids = [
        served.deploy(
            make_memory("write", alias="a") | {"agent_alias": "a"},
            make_memory("write", alias="b") | {"agent_alias": "a/b"},
        )
        for _ in range(2)
    ]

    for uid in uids:
        for alias, ident in (("a", "b/c"), ("a%2Fb", "c"), ("a", "b/c"), ("a%2Fb", "c")):
            assert (
                served.webhook(
                    uid, alias, f"{alias} {ident}", query="?wait=60", webhook_id=ident
                ).status
                == 200
            )
        assert served.say(uid, "x", webhook_id="a/b/c", query="?wait=60").status == 200

    assert [served.house.contents(uid) for uid in uids] == [["a b/c", "a%2Fb c"]] * 2
