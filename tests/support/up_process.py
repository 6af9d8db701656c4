"""`memrelay up` as a child process on the memory root of a test."""

from pathlib import Path

from tests.support.child import start_program
from tests.support.client import Client
from tests.support.system import TestSystem


class UpProcess:
    """Runs until the end of its `TestSystem`, whose own bus server stays unused."""

    def __init__(self, system: TestSystem, bus: Path | None = None, **settings: str) -> None:
        """Return when the sample pipeline is served. The bus server's files are in `bus`;
        `settings` come without MEMRELAY_.
        """
        ours = {
            "MEMORY__ROOT": str(system.root),
            "BUS__DATA": str(bus or system.folder / "up"),
            "WEB__PORT": "0",
        }
        self.process = start_program("up", system.folder / "up.log", ours | settings)
        system.workers.append(self.process)
        self.url: str = self.process.await_event("web_ready")["url"]
        self.uid: str = self.process.await_event("pipelines_served")["pipelines"][0]

    @property
    def servers(self) -> list[int]:
        """Return the process IDs of the launched bus servers, the newest one last."""
        return [
            event["pid"]
            for event in self.process.events
            if event["event"] == "embedded_server_launched"
        ]

    def client(self) -> Client:
        """Return a client for its bus."""
        return Client(Path(self.process.await_event("embedded_server_ready")["socket"]))
