"""A house with its web server: the real `memrelay web` as a child process, which can be told to end, killed, started again."""
import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.bundles import Json, make_bundle, make_uid
from tests.support.house import House
from tests.support.http import Answer, ask
from tests.support.run_worker import deploy
from tests.support.waiting import wait_for
from tests.support.worker import CHECKOUT


class WebProcess:
    """`memrelay web`, with what it logs in a file as JSON."""

    def __init__(self, log: Path, settings: Mapping[str, str]) -> None:
        """Starts at once; `settings` as the environment names them."""
        self._log = log
        self._start_of_log = log.stat().st_size if log.exists() else 0
        kept = {name: value for name, value in os.environ.items() if not name.startswith("MEMRELAY_")}
        with log.open("ab") as file:
            self._process = subprocess.Popen([sys.executable, "-m", "tests.support.run_program", "web"], cwd=CHECKOUT,
                                             env=kept | settings, stdin=subprocess.DEVNULL, stdout=file, stderr=file)

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    @property
    def lives(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def said(self) -> str:
        """What this process wrote to stdout and stderr."""
        return self._log.read_bytes()[self._start_of_log:].decode(errors="replace")

    @property
    def events(self) -> list[Json]:
        """What it logged."""
        return [json.loads(line) for line in self.said.splitlines() if line.startswith("{") and line.endswith("}")]

    def await_event(self, name: str, within_s: float = 20.0) -> Json:
        """Its first log line of that name."""
        wait_for(lambda: self._first(name) or not self.lives, f"the web server logs {name}:\n{self.said}", within_s)
        event = self._first(name)
        assert event is not None, f"the web server ended with {self._process.returncode}:\n{self.said}"
        return event

    def _first(self, name: str) -> Json | None:
        return next((event for event in self.events if event["event"] == name), None)

    def await_end(self, within_s: float = 20.0) -> int:
        """Its exit code."""
        wait_for(lambda: not self.lives, f"the web server has ended:\n{self.said}", within_s)
        return self._process.wait()

    def tell_to_end(self) -> None:
        """SIGTERM; does not wait."""
        os.kill(self.pid, signal.SIGTERM)

    def stop(self, within_s: float = 20.0) -> int:
        """SIGTERM; its exit code."""
        self.tell_to_end()
        return self.await_end(within_s)

    def kill(self) -> None:
        """SIGKILL, as the kernel's memory killer would."""
        self._process.kill()
        self._process.wait()


class Served:
    """A house with a worker and a web server. Use it as a context: at its end nothing of it runs."""

    def __init__(self, *, worker: bool = True, secrets: Mapping[str, str] | None = None, **settings: str) -> None:
        """`settings` as the environment names them, without MEMRELAY_: WEB__MAX_WAIT_S="2"; `secrets` as it names those."""
        self.house = House()
        self._worker, self._settings, self._secrets = worker, settings, dict(secrets or {})
        self.webs: list[WebProcess] = []

    def __enter__(self) -> Self:
        """Starts everything."""
        with ExitStack() as stack:   # ends what has begun where not everything does
            stack.enter_context(self.house)
            stack.callback(self._end_webs)
            if self._worker:
                self.house.start_worker()
            self.start_web()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Ends everything."""
        self._stack.close()

    def _end_webs(self) -> None:
        for web in self.webs:
            if web.lives:
                web.kill()

    @property
    def web(self) -> WebProcess:
        """The web server that was started last."""
        return self.webs[-1]

    def start_web(self) -> WebProcess:
        """Another web server, on a port of its own; returns when it listens."""
        ours = {"BUS__URL": f"unix://{self.house.client.socket}", "MEMORY__ROOT": str(self.house.root), "WEB__PORT": "0",
                "LOG__FORMAT": "json"} | self._settings
        named = {f"MEMRELAY_{name}": value for name, value in ours.items()}
        self.webs.append(WebProcess(self.house.folder / "web.log", named | self._secrets))
        self.url: str = self.web.await_event("web_ready")["url"]
        return self.web

    def deploy(self, *agents: Json, **keys: Any) -> str:
        """The uid of a pipeline of its own; without agents it has the five commands."""
        uid = make_uid()
        self.house.deploy(make_bundle(uid, *agents) | keys)
        return uid

    def deploy_unserved(self, *agents: Json) -> str:
        """The same where no worker serves it, or none can now."""
        bundle = make_bundle(make_uid(), *agents)
        asyncio.run(deploy(self.house.root, bundle))
        return str(bundle["pipeline_uid"])

    def post(self, path: str, body: bytes | Json | str = b"", **headers: str) -> Answer:
        """A POST, without any header that is not given; a dictionary goes as JSON. `webhook_id` names the header webhook-id."""
        return ask(self.url, "POST", path, body, headers)

    def get(self, path: str, **headers: str) -> Answer:
        """A GET."""
        return ask(self.url, "GET", path, b"", headers)

    def webhook(self, uid: str, alias: str, body: bytes | Json | str, *, query: str = "", **headers: str) -> Answer:
        """A POST to an agent's webhook."""
        return self.post(f"/webhooks/{uid}/{alias}{query}", body, **headers)

    def say(self, uid: str, body: bytes | Json | str, *, swarm: str = "chat", query: str = "", **headers: str) -> Answer:
        """A POST to a swarm."""
        return self.post(f"/v1/pipelines/{uid}/swarms/{swarm}/messages{query}", body, **headers)
