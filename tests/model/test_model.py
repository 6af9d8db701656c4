"""The long property test: whatever several callers do over several interfaces, and whatever is
killed, a store agrees with their models.

`pytest tests/model` is the short form, `pytest tests/model -m slow` the long one for some seeds.
A failure names its seed: `--seed 7` runs that one.
"""

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import pytest

from tests.model.agreement import Agreement
from tests.model.caller import NEVER, SHARED, TOLD, Caller
from tests.model.faces import Faces
from tests.model.files import assert_tables_agree, assert_whole, count_of
from tests.support.bundles import (
    STORE,
    Json,
    make_agent,
    make_bundle,
    make_memory,
    make_relay,
    make_uid,
)
from tests.support.embedding_server import KEY, EmbeddingServer, embedding_server
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

NAMES = ("ada", "ben", "cyd", "dan")
COMMANDS = ("write", "append", "delete", "sweepable", "sweep", "remember")
LIMITS = {"attempts": 100_000, "log_length": 100_000}  # no message is given up because of the kills


class Mortal:
    """A pipeline whose worker, bus and web server are killed, and which is deployed again, while
    callers use it.
    """

    def __init__(self, web_system: WebSystem, uid: str, server: EmbeddingServer, seed: str) -> None:
        """The worker is running."""
        self.web_system, self.uid, self._server = web_system, uid, server
        self.chance, self.kills, self._versions = random.Random(f"{seed} kills"), 0, 0
        self._worker()

    def _worker(self, **how: Any) -> None:
        options = {
            "model": "endpoint",
            "url": self._server.url,
            "name": "letters",
            "key": KEY,
            "private": True,
        }
        start = (
            self.web_system.system.start_stepping_worker
            if how
            else self.web_system.system.start_worker
        )
        start(ready=not how, limits=LIMITS, embedding=options, **how)

    def trouble(self, over: threading.Event) -> None:
        """Cause one disturbance after the other until the end."""
        troubles = [
            self._kill_worker,
            partial(self._kill_within_a_step, over),
            self._kill_bus,
            self._kill_web,
            self._deploy,
            self._slow_embedder,
        ]
        while not over.wait(self.chance.uniform(0.1, 1.5)):
            self.chance.choices(troubles, [4, 4, 3, 1, 2, 3])[0]()

    def _kill_worker(self) -> None:
        self.kills += 1
        self.web_system.system.workers[-1].kill()
        self._worker()

    def _kill_within_a_step(self, over: threading.Event) -> None:
        """Kill the worker between two steps of a batch."""
        self.kills += 1
        self.web_system.system.workers[-1].kill()
        self._worker(die_at=self.chance.randint(1, 80))
        worker = self.web_system.system.workers[-1]
        if worker.lives_until(over.is_set, 60):
            worker.kill()
        self._worker()

    def _kill_bus(self) -> None:
        self.kills += 1
        self.web_system.system.kill_server()
        self.web_system.system.server.start()

    def _kill_web(self) -> None:
        self.web_system.web.kill()
        self.web_system.start_web()

    def _slow_embedder(self) -> None:
        """Slow the embedder down: calls wait for their vectors or run without, with equal
        results.
        """
        self._server.delay_s = self.chance.choice([0.0, 0.0, 0.3])
        self._server.instead = [(503, b"")] * self.chance.choice([0, 0, 2])

    def _deploy(self) -> None:
        """Deploy another version of the bundle with another store."""
        self._versions += 1
        self.web_system.system.deploy(bundle_of(self.uid, self._versions))


def bundle_of(uid: str, version: int = 0) -> Json:
    """Return the commands and the agents of this version."""
    says = [make_relay(name, rf"^/{name}\b\s*(.*)", flags="s") for name in COMMANDS]
    keeps = [
        make_memory("write"),
        make_memory("append", kind="journal", separator=";"),
        make_memory("delete", by="guid"),
        make_memory("write", senders="dispatch_sweepable", alias="sweepable", kind="swept"),
        make_memory("delete", senders="dispatch_sweep", alias="sweep", kind="swept", by="kind"),
        make_agent(
            "remember",
            "memory_entry_write",
            {
                "memory_id": STORE,
                "memory": TOLD,
                "duplicate_threshold": 1,
                "update_threshold": NEVER,
            },
            senders="dispatch_remember",
        ),
    ]
    others = (
        [
            make_memory(
                "write",
                senders="Nobody",
                alias=f"other{version}",
                memory_id=f"instances/${{pipeline_uid}}/other{version % 3}",
            )
        ]
        if version
        else []
    )
    return make_bundle(uid, *says, *keeps, *others)


@contextmanager
def told_with(seed: str) -> Iterator[None]:
    """Add to a failure how to run it again."""
    try:
        yield
    except AssertionError as error:
        error.add_note(f"seed {seed}: run it again with --seed {seed}")
        raise


def run_together(callers: list[Caller], mortal: Mortal, steps: int) -> None:
    """Run every caller in its own thread, with the kills."""
    over = threading.Event()
    with ThreadPoolExecutor(len(callers)) as threads:
        running = [threads.submit(_run, caller, steps) for caller in callers]
        threading.Thread(target=lambda: (wait(running), over.set())).start()
        mortal.trouble(over)
    for one in running:
        one.result()


def _run(caller: Caller, steps: int) -> None:
    try:
        caller.run(steps)
    except AssertionError as error:
        error.add_note(f"{caller.name} did last:\n" + "\n".join(caller.done))
        raise


def play(seed: str, bursts: int, steps: int) -> None:
    """Run the test for one seed."""
    uid, began = make_uid(), time.monotonic()
    with (
        told_with(seed),
        embedding_server() as server,
        WebSystem(worker=False) as web_system,
        ExitStack() as stack,
    ):
        mortal = Mortal(web_system, uid, server, seed)
        web_system.system.deploy(bundle_of(uid))
        callers = [
            Caller(name, Faces(web_system, uid, name), seed, speaks=name == NAMES[0])
            for name in NAMES
        ]
        for caller in callers:
            stack.callback(caller.faces.close)
        _, told = callers[0].faces.call("memories.create", {"name": SHARED}, ["bus"])
        for caller in callers:
            caller.shared = told["id"]
        file = web_system.system.store_file(uid)
        for burst in range(bursts):
            run_together(callers, mortal, steps)
            web_system.system.client.await_quiet(uid, 30)
            Agreement(callers).check(10 if burst < bursts - 1 else 1000)
            assert_tables_agree(file)
            print(
                f"seed {seed}: burst {burst + 1} after {time.monotonic() - began:.0f} s, "
                f"{mortal.kills} kills",
                flush=True,
            )
        _end(web_system, uid, server)
        retries = sum(caller.faces.retries for caller in callers)
        print(
            f"seed {seed}: {bursts * steps * len(callers)} steps, {mortal.kills} kills, {retries} "
            f"retries, "
            f"{time.monotonic() - began:.1f} s"
        )


def _end(web_system: WebSystem, uid: str, server: EmbeddingServer) -> None:
    """Check that no work is left and that the file is sound."""
    system, file = web_system.system, web_system.system.store_file(uid)
    server.delay_s, server.instead = 0.0, []
    lacking = "SELECT (SELECT count(*) FROM records) - (SELECT count(*) FROM vectors_0)"
    wait_for(lambda: count_of(file, lacking) == 0, "every record has its vector")
    assert not system.dead_letters(uid)
    assert system.workers[-1].stop() == 0
    assert_tables_agree(file)
    assert_whole(file)


@pytest.mark.slow
def test_a_store_agrees_with_the_model() -> None:
    play("short", bursts=2, steps=20)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("number", range(1, 6))
def test_a_store_agrees_with_the_model_after_many_steps(
    number: int, request: pytest.FixtureRequest
) -> None:
    chosen = request.config.getoption("--seed")
    if chosen and number > 1:
        pytest.skip("one seed is asked for")
    play(chosen or str(number), bursts=6, steps=50)
