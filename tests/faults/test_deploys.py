"""Row 21: deploys under traffic, stale conditions, and a crash between write and swap. Each
message runs under one version.
"""

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Self

import orjson
import pytest

from memrelay.memory.control.catalog import Catalog, Deployed
from tests.support.bundles import STORE, Json, make_agent, make_bundle, make_uid
from tests.support.client import Client, SwarmMessage, input_of, make_envelope
from tests.support.http import Answer, ask
from tests.support.run_worker import deploy
from tests.support.system import TestSystem
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

CHECKOUT = Path(__file__).resolve().parents[2]
NOTES = "instances/${pipeline_uid}/notes"
DEPLOYS, PER_S, CHUNK = 100, 1000, 50
EVERYTHING = {"log_length": 1_000_000}  # so that no result is trimmed from the log
Record = Callable[[str, object], None]

# usage: ROOT DIE_AT BUNDLE...: deploys the bundles in turn as the web server and the CLI do,
# without notifying the bus. It kills itself at statement DIE_AT; if that is 0, it goes on until it
# is killed.
DEPLOYING = """
import asyncio, os, signal, sys
from itertools import cycle
from pathlib import Path
from memrelay.memory.control.catalog import Catalog
from memrelay.pipelines.check import check
from memrelay.pipelines.secret_references import SecretResolver
from memrelay.web.api.deployments import Deployments

async def main(root, die_at, *files):
    async with Catalog(Path(root)) as catalog:
        deployments = Deployments(catalog, None, SecretResolver(Path(root), {}))
        left = [int(die_at)]
        def step(statement):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        await catalog._database._database.set_trace_callback(step)
        for file in files if int(die_at) else cycle(files):
            await deployments.deploy(check(Path(file).read_bytes()).accepted())
            print("deployed", flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def make_version(uid: str, version: str) -> Json:
    """Return a bundle with two steps over two stores; the results name the version."""
    first = make_agent(
        f"first_{version}", "memory_write", {"memory_id": STORE, "kind": version}, senders="User"
    )
    second = make_agent(
        f"second_{version}",
        "memory_write",
        {"memory_id": NOTES, "kind": version},
        senders=f"first_{version}",
    )
    return make_bundle(uid, first, second)


def put(web_system: WebSystem, bundle: Json, **headers: str) -> Answer:
    return ask(web_system.url, "PUT", f"/v1/pipelines/{bundle['pipeline_uid']}", bundle, headers)


def tag(answer: Answer) -> str:
    return answer.headers["etag"]


def at_once(count: int, work: Callable[[int], Answer]) -> list[Answer]:
    """Return the answers to so many concurrent requests."""
    start = threading.Barrier(count)

    def one(number: int) -> Answer:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def versions_by_input(log: Sequence[SwarmMessage]) -> dict[str, set[str]]:
    """Return the versions whose agents produced messages, by input."""
    found: dict[str, set[str]] = defaultdict(set)
    for said in log:
        found[said.input] |= set() if said.sender == "User" else {said.sender.partition("_")[2]}
    return found


class Load(threading.Thread):
    """Sends a thousand messages a second until the end of the context."""

    def __init__(self, system: TestSystem, uid: str) -> None:
        super().__init__()
        self._socket, self._uid, self._ended, self.entered = (
            system.client.socket,
            uid,
            threading.Event(),
            0,
        )
        self.lasted_s = 0.0

    def run(self) -> None:
        began = time.monotonic()
        with Client(self._socket) as client:
            while not self._ended.wait(max(0.0, began + self.entered / PER_S - time.monotonic())):
                self._enter(client, range(self.entered, self.entered + CHUNK))
        self.lasted_s = time.monotonic() - began

    def _enter(self, client: Client, numbers: range) -> None:
        with client.redis.pipeline(transaction=False) as pipe:
            for number in numbers:
                pipe.xadd(
                    input_of(self._uid), {"swarm": "chat", "data": make_envelope(f"n{number}")}
                )
            pipe.execute()
        self.entered += len(numbers)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()


def assert_each_by_one_version(system: TestSystem, uid: str, count: int) -> None:
    """Check that every input ran once and in order, and that one version ran both of its steps."""
    system.client.await_quiet(uid)
    wait_for(
        lambda: system.rows(uid, "SELECT count(*) FROM pending") == [(0,)],
        "no continuation is left",
    )
    by_input = versions_by_input({said.mid: said for said in system.client.log(uid)}.values())
    assert len(by_input) == count
    assert Counter(map(len, by_input.values())) == {1: count}, "an input had two versions, or none"
    kept = dict(system.rows(uid, "SELECT guid, kind FROM records"))
    assert system.contents(uid) == [f"n{number}" for number in range(count)]
    noted = [
        (orjson.loads(content)["guid"], kind)
        for content, kind in system.rows(uid, "SELECT content, kind FROM records", "notes")
    ]
    assert dict(noted) == kept and len(noted) == count
    assert not system.dead_letters(uid)
    for alias in ("memories", "notes"):
        assert system.rows(uid, "PRAGMA integrity_check", alias) == [("ok",)]


@pytest.mark.timeout(240)
def test_100_alternating_deploys_under_1000_messages_a_second(record_property: Record) -> None:
    uid, took_s = make_uid(), []
    with WebSystem(worker=False) as web_system:
        system = web_system.system
        worker = system.start_worker(limits=EVERYTHING)
        versions = [make_version(uid, version) for version in ("a", "b")]
        answer = put(web_system, versions[0])
        with Load(system, uid) as load:
            for number in range(1, DEPLOYS + 1):
                began, before = time.monotonic(), tag(answer)
                answer = put(web_system, versions[number % 2], If_Match=before)
                took_s.append(time.monotonic() - began)
                assert (answer.status, answer.json["version"], answer.json["served"]) == (
                    200,
                    number + 1,
                    True,
                )

        assert_each_by_one_version(system, uid, load.entered)
        kinds = Counter(kind for (kind,) in system.rows(uid, "SELECT kind FROM records"))
        assert min(kinds["a"], kinds["b"]) > DEPLOYS
        assert worker.stop() == 0
    rate = load.entered / load.lasted_s
    assert rate > PER_S / 2
    record_property(
        "fault",
        f"21 | 100 alternating deploys | messages {load.entered}, a second {rate:.0f}, "
        f"median deploy s {sorted(took_s)[DEPLOYS // 2]:.3f}, longest deploy s {max(took_s):.3f}",
    )


def test_alternating_deploys_while_the_worker_is_killed_again_and_again() -> None:
    uid, moments = make_uid(), random.Random(21)
    with TestSystem() as system:
        versions = [make_version(uid, version) for version in ("a", "b")]
        worker = system.start_worker(bundles=versions[:1], limits=EVERYTHING)
        with Load(system, uid) as load:
            for number in range(1, 11):
                time.sleep(moments.uniform(0, 0.2))
                worker.kill()
                asyncio.run(deploy(system.root, versions[number % 2]))
                worker = system.start_worker(limits=EVERYTHING)

        assert_each_by_one_version(system, uid, load.entered)


def test_20_concurrent_posts_create_one_pipeline() -> None:
    uid = make_uid()
    with WebSystem() as web_system:
        answers = at_once(
            20, lambda number: web_system.post("/v1/pipelines", make_version(uid, f"v{number}"))
        )

        assert Counter(answer.status for answer in answers) == {201: 1, 409: 19}
        (made,) = [answer.json for answer in answers if answer.status == 201]
        assert web_system.get(f"/v1/pipelines/{uid}").json["hash"] == made["hash"]
        assert web_system.get(f"/v1/pipelines/{uid}/versions").json["total"] == made["version"] == 1
        assert all(answer.problem[0] == 409 for answer in answers if answer.status != 201)


def test_20_concurrent_conditional_puts_replace_a_version_once() -> None:
    uid = make_uid()
    with WebSystem() as web_system:
        first = tag(put(web_system, make_version(uid, "first")))

        answers = at_once(
            20, lambda number: put(web_system, make_version(uid, f"v{number}"), If_Match=first)
        )

        assert Counter(answer.status for answer in answers) == {200: 1, 412: 19}
        assert web_system.get(f"/v1/pipelines/{uid}").json["version"] == 2


def test_a_stale_condition_changes_nothing() -> None:
    uid = make_uid()
    with WebSystem() as web_system:
        stale, active = [tag(put(web_system, make_version(uid, version))) for version in ("a", "b")]
        path = f"/v1/pipelines/{uid}"

        refused = [
            put(web_system, make_version(uid, "c"), If_Match=stale),
            put(web_system, make_version(uid, "c"), If_None_Match="*"),
            ask(web_system.url, "DELETE", path, headers={"If_Match": stale}),
            web_system.post(f"{path}/rollback", {"version": 1}, If_Match=stale),
        ]

        assert [answer.problem[0] for answer in refused] == [412] * 4
        assert {f'"{answer.json["active"]}"' for answer in refused} == {active}
        web_system.say(uid, "tea", query="?wait=60")
        assert versions_by_input(web_system.system.client.log(uid)).popitem()[1] == {"b"}
        assert ask(web_system.url, "DELETE", path, headers={"If_Match": active}).status == 204


def state_of(root: Path, uid: str) -> tuple[Deployed, list[Deployed]]:
    """Return the active version and all versions of a file, which must be sound."""
    with closing(sqlite3.connect(root / "system.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

    async def read() -> tuple[Deployed | None, list[Deployed], bytes | None]:
        async with Catalog(root) as catalog:
            active = await catalog.serving(uid)
            return (
                active,
                await catalog.versions(uid),
                await catalog.source(active.hash if active else ""),
            )

    active, versions, source = asyncio.run(read())
    assert active is not None and source is not None
    assert versions[0] == active, "the newest version is not the active one"
    assert [one.version for one in versions] == list(range(len(versions), 0, -1))
    return active, versions


def start_deploying(root: Path, die_at: int, *bundles: Json) -> subprocess.Popen[bytes]:
    files = []
    for number, bundle in enumerate(bundles):
        files.append(root.parent / f"bundle{number}.json")
        files[-1].write_bytes(orjson.dumps(bundle))
    return subprocess.Popen(
        [sys.executable, "-c", DEPLOYING, str(root), str(die_at), *map(str, files)],
        cwd=CHECKOUT,
        stdout=subprocess.PIPE,
    )


def test_a_killed_deploy_leaves_the_old_or_the_new_version(
    record_property: Record,
) -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_version(uid, "old")])
        old, kills = state_of(system.root, uid)[0], 0
        while True:
            process = start_deploying(system.root, kills + 1, make_version(uid, "new"))
            process.communicate(timeout=120)
            if process.returncode == 0:
                break
            kills += 1
            assert process.returncode == -signal.SIGKILL
            assert state_of(system.root, uid)[0] == old
            assert system.client.ask(uid, "tea")[-1].sender.endswith("_old")

        assert state_of(system.root, uid)[0].version == 2
        wait_for(
            lambda: system.client.ask(uid, "tea")[-1].sender.endswith("_new"),
            "a swap that nobody told of is noticed",
        )
    assert kills > 4
    record_property(
        "fault",
        f"21 | deploy killed between write and swap | statements {kills}, old one served each time "
        f"yes",
    )


def test_killed_deploys_leave_a_sound_catalog(tmp_path: Path) -> None:
    uid, moments, root = make_uid(), random.Random(21), tmp_path / "memory"
    bundles = [make_version(uid, version) for version in ("a", "b")]
    asyncio.run(deploy(root, bundles[0]))
    seen = [1]
    for _ in range(10):
        process = start_deploying(root, 0, *bundles)
        assert process.stdout is not None and process.stdout.readline() == b"deployed\n"
        time.sleep(moments.uniform(0.02, 0.2))
        process.kill()
        process.communicate(timeout=120)
        seen.append(len(state_of(root, uid)[1]))

    assert seen == sorted(seen) and seen[-1] > 10


def die_after_commit(system: TestSystem, uid: str, bundle: Json, text: str) -> str:
    """Return the ID of an input that one version committed to its first store before its worker
    was killed.
    """
    worker = system.start_stepping_worker(bundles=[bundle], die_on="committed")
    ident = system.client.enter(uid, text)
    worker.await_end()
    assert not system.client.log(uid) and len(system.contents(uid)) == 1
    return ident


@pytest.mark.parametrize("change", ["other stores", "another swarm", "no store"])
def test_an_input_committed_before_a_crash_ends_under_its_version(
    change: str,
) -> None:
    uid = make_uid()
    other = {
        "other stores": make_agent(
            "other", "memory_write", {"memory_id": "instances/${pipeline_uid}/other"}
        ),
        "another swarm": make_agent(
            "other", "memory_write", {"memory_id": STORE}, on="elsewhere", to="elsewhere"
        ),
        "no store": make_agent("other", "add_1"),
    }[change]
    with TestSystem() as system:
        ident = die_after_commit(system, uid, make_version(uid, "old"), "tea")
        asyncio.run(deploy(system.root, make_bundle(uid, other)))

        worker = system.start_worker()
        system.client.await_done(uid, ident)
        wait_for(lambda: system.contents(uid, "notes"), "its second step is done")

        assert worker.stop() == 0
        log = [said for said in system.client.log(uid) if said.input == ident]
        assert [said.sender for said in log] == ["User", "first_old", "second_old"]
        assert (system.contents(uid), system.contents(uid, "notes")) == (["tea"], [log[1].text])
        assert system.rows(uid, "SELECT count(*) FROM pending") == [(0,)]
        assert not system.contents(uid, "other") and not system.dead_letters(uid)


def test_a_webhook_committed_before_a_crash_is_answered_without_its_agent() -> None:
    uid = make_uid()
    with TestSystem() as system:
        worker = system.start_stepping_worker(
            bundles=[make_version(uid, "old")], die_on="committed"
        )
        data = {"agent": "first_old_", "data": make_envelope("tea")}
        ident = system.client.redis.xadd(input_of(uid), data).decode()
        worker.await_end()
        asyncio.run(
            deploy(system.root, make_bundle(uid, make_agent("plus", "add_1", senders="User")))
        )

        system.start_worker()
        system.client.await_done(uid, ident)
        wait_for(lambda: system.contents(uid, "notes"), "its second step is done")

        assert [said.sender for said in system.client.log(uid)] == ["first_old", "second_old"]
        assert system.contents(uid) == ["tea"] and not system.dead_letters(uid)


def test_a_damaged_store_of_an_earlier_version_blocks_no_pipeline() -> None:
    uid = make_uid()
    with TestSystem() as system:
        system.start_worker(bundles=[make_version(uid, "old")]).stop()
        system.store_file(uid, "gone").parent.mkdir(parents=True, exist_ok=True)
        system.store_file(uid, "gone").write_bytes(b"no database" * 1000)

        worker = system.start_worker()

        assert system.client.ask(uid, "tea")[1].sender == "first_old"
        assert "former_store_left_out" in worker.output
