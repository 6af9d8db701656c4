"""A host: a memory root and the programs `memrelay worker` and `memrelay web` on it."""

from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.child import ChildProcess, start_program
from tests.support.http import Answer, ask
from tests.support.waiting import wait_for


class Host:
    """The processes of one host, as a context. `settings` come without MEMRELAY_."""

    def __init__(self, folder: Path, **settings: str) -> None:
        self.folder, self.root = folder, folder / "memory"
        folder.mkdir(exist_ok=True)
        self.settings = {"MEMORY__ROOT": str(self.root), "WEB__PORT": "0"} | settings
        self.processes: list[ChildProcess] = []
        self.url = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self, command: str) -> ChildProcess:
        """Start `memrelay COMMAND`."""
        number = len(self.processes)
        process = start_program(command, self.folder / f"{command}-{number}.log", self.settings)
        self.processes.append(process)
        return process

    def start_worker(self) -> ChildProcess:
        return self.start("worker")

    def start_web(self) -> ChildProcess:
        web = self.start("web")
        self.url = web.await_event("web_ready")["url"]
        return web

    def kill(self) -> None:
        """Kill all processes."""
        for process in self.processes:
            with suppress(ProcessLookupError):
                process.kill()

    def ask(self, method: str, path: str, body: Any = b"", **headers: str) -> Answer:
        return ask(self.url, method, path, body, headers)

    def may_deploy(self, bundle: dict[str, Any]) -> bool:
        """Try to deploy a bundle, and return whether that worked."""
        return self.ask("POST", "/v1/pipelines", bundle).status == 201

    def await_contents(self, uid: str, wanted: list[str]) -> None:
        """Wait until all wanted contents can be read."""

        def has_all() -> bool:
            answer = self.ask("GET", f"/v1/pipelines/{uid}/records?limit=1")
            return answer.status == 200 and set(wanted) <= set(self.contents(uid))

        wait_for(has_all, "all writes have effects")

    def await_count(self, uid: str, least: int) -> None:
        """Wait until at least so many records can be read."""

        def has_all() -> bool:
            answer = self.ask("GET", f"/v1/pipelines/{uid}/records?limit=1")
            return answer.status == 200 and answer.json["total"] >= least

        wait_for(has_all, "all records can be read")

    def workers(self) -> list[dict[str, Any]]:
        """Return the reports of the live workers."""
        answer = self.ask("GET", "/status")
        assert answer.status == 200, answer
        workers: list[dict[str, Any]] = answer.json["workers"]
        return workers

    def await_workers(self, pid: int) -> None:
        """Wait until a worker with this process id reports."""
        wait_for(
            lambda: any(worker["name"].endswith(f":{pid}") for worker in self.workers()),
            "the worker reports",
        )

    def workers_of(self, uid: str) -> list[int]:
        """Return the process ids of the workers that report a pipeline."""
        return [
            int(worker["name"].rpartition(":")[2])
            for worker in self.workers()
            if uid in worker["pipelines"]
        ]

    def deploy(self, bundle: dict[str, Any]) -> None:
        """Deploy a bundle over HTTP and wait until a worker serves it."""
        answer = self.ask("POST", "/v1/pipelines", bundle)
        assert answer.status == 201, answer
        self.await_served(bundle["pipeline_uid"])

    def await_served(self, uid: str) -> None:
        wait_for(
            lambda: self.ask("GET", f"/ready?pipeline={uid}").status == 200, f"{uid} is served"
        )

    def contents(self, uid: str) -> list[str]:
        """Return the contents of all records, oldest first."""
        found, cursor = list[str](), ""
        while True:
            path = f"/v1/pipelines/{uid}/records?limit=500&order=asc{cursor}"
            answer = self.ask("GET", path)
            assert answer.status == 200, answer
            found += [record["content"] for record in answer.json["items"]]
            if not (following := answer.json.get("next_cursor")):
                return found
            cursor = f"&cursor={following}"
