"""A worker and a web server start while PostgreSQL is down."""

from contextlib import ExitStack
from pathlib import Path

from tests.support.bundles import make_bundle, make_uid
from tests.support.host import Host
from tests.support.postgres import Postgres
from tests.support.replicated_bus import single_bus


def test_processes_wait_for_postgresql_and_say_so(tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(Postgres())
        bus = stack.enter_context(single_bus(tmp_path / "bus"))
        storage = server.create_database()
        server.stop()
        host = stack.enter_context(Host(tmp_path / "host", BUS__URL=bus, STORAGE__URL=storage))
        waiting = [host.start(command) for command in ("worker", "web")]
        for process in waiting:
            reason = process.await_event("storage_unavailable")["reason"]
            assert reason.startswith("PostgreSQL (storage.url): connection"), reason
            assert reason.endswith("; it is retried")
        stopped = host.start("worker")
        stopped.await_event("storage_unavailable")
        assert stopped.stop() == 0
        host.processes.remove(stopped)

        server.start()
        host.url = waiting[1].await_event("web_ready")["url"]
        uid = make_uid()
        host.deploy(make_bundle(uid))
        answer = host.ask("POST", f"/v1/pipelines/{uid}/swarms/chat/messages", {"text": "/write a"})
        assert answer.status == 202, answer
        host.await_contents(uid, ["a"])
        assert all(process.lives for process in waiting)
