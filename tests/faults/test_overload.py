"""Row 20: messages arrive faster than a slow block handles them. The backlog is bounded, the
rest gets a 503, and the pipeline recovers.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest

from tests.faults.conftest import RecordFigures
from tests.support.abuse import Bystander, Footprint
from tests.support.bundles import STORE, make_agent, make_memory, make_relay
from tests.support.client import input_of
from tests.support.waiting import PATIENCE_S, wait_for
from tests.support.web_system import WebSystem

SLOW = "a.{200}c|^(.*)$"  # takes milliseconds for a new sequence of a and b
LENGTH = 600  # characters
POSTERS, BACKLOG, MOST_MB = 8, 300, 50
OVER = 1.5  # several processes may post while a cached length is valid


@pytest.fixture
def web_system() -> Iterator[WebSystem]:
    """Start a server whose pipelines have a limited backlog."""
    with WebSystem(BUS__MAX_BACKLOG=str(BACKLOG)) as web_system:
        yield web_system


def deploy(web_system: WebSystem) -> str:
    """Deploy a pipeline that is slow for each message."""
    return web_system.deploy(
        make_relay("slow", SLOW), make_memory("write", senders="dispatch_slow")
    )


def flood(
    web_system: WebSystem, uid: str, seconds: float
) -> tuple[Counter[int], list[str], set[str | None]]:
    """Post as fast as the server answers; return (answers by status, accepted texts, Retry-After
    of the others).
    """
    counts, taken, retries, ends_at = (
        Counter[int](),
        list[str](),
        set[str | None](),
        time.monotonic() + seconds,
    )

    def post(poster: int) -> None:
        connection, chooser, number = (
            HTTPConnection(urlsplit(web_system.url).netloc, timeout=PATIENCE_S),
            random.Random(),
            0,
        )
        while time.monotonic() < ends_at:
            number += 1
            text = f"{poster}-{number} {''.join(chooser.choices('ab', k=LENGTH))}"
            connection.request("POST", f"/v1/pipelines/{uid}/swarms/chat/messages", text)
            answer = connection.getresponse()
            answer.read()
            counts[answer.status] += 1
            if answer.status == 202:
                taken.append(text)
            else:
                retries.add(answer.headers["Retry-After"])
        connection.close()

    threads = [threading.Thread(target=post, args=(poster,)) for poster in range(POSTERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return counts, taken, retries


@pytest.mark.parametrize(
    "seconds", [6, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(180)])]
)
def test_the_backlog_is_bounded_and_the_rest_gets_503(
    web_system: WebSystem, seconds: float, record_figures: RecordFigures
) -> None:
    uid, system = deploy(web_system), web_system.system
    flood(web_system, uid, 1)  # warms everything up and fills the backlog
    pids = {
        "web": web_system.web.pid,
        "worker": system.workers[-1].pid,
        "server": system.server.pid,
    }
    footprints = {name: Footprint(pid) for name, pid in pids.items() if pid is not None}
    kept = len(system.contents(uid))

    with Bystander(web_system.url, "/ready") as others, Longest(web_system, uid) as longest:
        counts, taken, retries = flood(web_system, uid, seconds)

    grown = {f"{name}_mb": footprint.grown_mb for name, footprint in footprints.items()}
    began = time.monotonic()
    system.client.await_quiet(uid, 30)
    record_figures(
        20,
        f"a slow block for {seconds:g} s",
        taken=counts[202],
        shed=counts[503],
        longest=longest.entries,
        others_s=others.slowest_s,
        recovered_s=time.monotonic() - began,
        **grown,
    )
    assert set(counts) == {202, 503} and retries == {"1"}
    assert longest.entries < BACKLOG * OVER
    assert sum(grown.values()) < MOST_MB
    assert not others.failures
    contents = Counter(system.contents(uid))
    assert not Counter(taken) - contents and max(contents.values()) == 1 and kept < len(contents)
    assert system.dead_letters(uid) == [] and system.client.unacknowledged(uid) == 0
    assert "guid" in web_system.say(uid, "and on", query="?wait=60").texts[0]


class Longest:
    """Measures the longest length of an input. Use it as a context."""

    def __init__(self, web_system: WebSystem, uid: str) -> None:
        self._redis, self._key, self._ended = (
            web_system.system.client.redis,
            input_of(uid),
            threading.Event(),
        )
        self._thread, self.entries = threading.Thread(target=self._look), 0

    def __enter__(self) -> "Longest":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.02):
            self.entries = max(self.entries, int(self._redis.xlen(self._key)))


@pytest.mark.parametrize(
    "path",
    [
        "/webhooks/{uid}/memory_write_",
        "/v1/pipelines/{uid}/swarms/chat/messages",
        "/api/v1/pd/webhook/tea-with-milk/hook/memory_write",
        "/v1/pipelines/{uid}/swarms/chat/messages?wait=5",
    ],
)
def test_every_http_ingress_sheds_with_retry_after(path: str) -> None:
    hook = make_agent("hook", "memory_write", {"memory_id": STORE}) | {
        "agent_alias": "hook",
        "wf_webhook_token": "env:HOOK",
    }
    writer = make_agent("memory_write", "memory_write", {"memory_id": STORE})
    with WebSystem(
        worker=False, secrets={"HOOK": "tea-with-milk"}, BUS__MAX_BACKLOG="20"
    ) as web_system:
        uid = web_system.deploy_unserved(hook, writer)
        web_system.system.client.enter_together(uid, ["x"] * 20)
        web_system.say(uid, "it learns with the first one")

        answer = web_system.post(path.format(uid=uid), "tea")

        assert (answer.problem[0], answer.headers["retry-after"]) == (503, "1")
        assert "bus.max_backlog allows 20" in answer.problem[1]
        web_system.system.client.redis.delete(input_of(uid))
        wait_for(lambda: web_system.say(uid, "tea").status == 202, "there is room again")


def test_other_redis_clients_are_not_limited() -> None:
    with WebSystem(BUS__MAX_BACKLOG="20") as web_system:
        uid = web_system.deploy()
        for number in range(100):
            web_system.system.client.publish(
                uid, b'{"from": "User", "args": [{"text": "/write %d"}]}' % number
            )

        wait_for(lambda: len(web_system.system.contents(uid)) == 100, "all were heard")
