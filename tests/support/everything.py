"""`memrelay up` as a child process: the bus that it launches, a worker and the web server, on a
house's memory root."""

from pathlib import Path

from tests.support.child import start_program
from tests.support.client import Client
from tests.support.house import House


class Everything:
    """It is ended with the house. The house's own server is another, and has nothing to do."""

    def __init__(self, house: House, bus: Path | None = None, **settings: str) -> None:
        """Returns when the sample pipeline is served; the server's files are in `bus`. `settings`
        without MEMRELAY_."""
        ours = {
            "MEMORY__ROOT": str(house.root),
            "BUS__DATA": str(bus or house.folder / "up"),
            "WEB__PORT": "0",
        }
        self.process = start_program("up", house.folder / "up.log", ours | settings)
        house.workers.append(self.process)
        self.url: str = self.process.await_event("web_ready")["url"]
        self.uid: str = self.process.await_event("pipelines_served")["pipelines"][0]

    @property
    def servers(self) -> list[int]:
        """The pids of the servers that were launched, the last one last."""
        return [
            event["pid"]
            for event in self.process.events
            if event["event"] == "embedded_server_launched"
        ]

    def client(self) -> Client:
        """For its bus."""
        return Client(Path(self.process.await_event("embedded_server_ready")["socket"]))
