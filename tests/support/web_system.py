"""A test environment with a real `memrelay web` process that can be stopped, killed and
restarted.
"""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Self

from tests.support.bundles import Json, make_bundle, make_uid
from tests.support.child import ChildProcess, start_program
from tests.support.http import Answer, ask
from tests.support.run_worker import deploy
from tests.support.system import TestSystem


class WebSystem:
    """A system with a worker and a web server. Use it as a context: at its end all processes have
    ended.
    """

    def __init__(
        self, *, worker: bool = True, secrets: Mapping[str, str] | None = None, **settings: str
    ) -> None:
        """`settings` come without MEMRELAY_: WEB__MAX_WAIT_S="2"; `secrets` are environment
        variables.
        """
        self.system = TestSystem()
        self._worker, self._settings, self._secrets = worker, settings, dict(secrets or {})
        self.webs: list[ChildProcess] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:  # ends the started parts if a later one fails
            stack.enter_context(self.system)
            stack.callback(self._end_webs)
            if self._worker:
                self.system.start_worker()
            self.start_web()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def _end_webs(self) -> None:
        for web in self.webs:
            if web.lives:
                web.kill()

    @property
    def web(self) -> ChildProcess:
        """Return the newest web server."""
        return self.webs[-1]

    def start_web(self, **settings: str) -> ChildProcess:
        """Start another web server on its own port and return when it listens. `settings` are
        added to the common ones.
        """
        ours = {
            "BUS__URL": f"unix://{self.system.client.socket}",
            "MEMORY__ROOT": str(self.system.root),
            "WEB__PORT": "0",
            "WEB__CALL_TIMEOUT_S": "60",  # for a busy machine
        }
        self.webs.append(
            start_program(
                "web",
                self.system.folder / "web.log",
                ours | self._settings | settings,
                self._secrets,
            )
        )
        self.url: str = self.web.await_event("web_ready")["url"]
        return self.web

    def deploy(self, *agents: Json, **keys: Any) -> str:
        """Deploy a new pipeline and return its UID; by default it has the five commands."""
        uid = make_uid()
        self.system.deploy(make_bundle(uid, *agents) | keys)
        return uid

    def deploy_unserved(self, *agents: Json) -> str:
        """Deploy a pipeline that no worker serves."""
        bundle = make_bundle(make_uid(), *agents)
        asyncio.run(deploy(self.system.root, bundle))
        return str(bundle["pipeline_uid"])

    def post(self, path: str, body: bytes | Json | str = b"", **headers: str) -> Answer:
        """Send a POST with only the given headers. A dictionary is sent as JSON; `webhook_id`
        sets the header webhook-id.
        """
        return ask(self.url, "POST", path, body, headers)

    def get(self, path: str, **headers: str) -> Answer:
        return ask(self.url, "GET", path, b"", headers)

    def webhook(
        self, uid: str, alias: str, body: bytes | Json | str, *, query: str = "", **headers: str
    ) -> Answer:
        """Send a POST to an agent's webhook."""
        return self.post(f"/webhooks/{uid}/{alias}{query}", body, **headers)

    def say(
        self,
        uid: str,
        body: bytes | Json | str,
        *,
        swarm: str = "chat",
        query: str = "",
        **headers: str,
    ) -> Answer:
        """Send a POST to a swarm."""
        return self.post(f"/v1/pipelines/{uid}/swarms/{swarm}/messages{query}", body, **headers)
