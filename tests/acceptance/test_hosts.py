"""Two hosts, each with its own memory root, one PostgreSQL and one bus."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bundles import make_bundle, make_uid
from tests.support.host import Host
from tests.support.postgres import Postgres
from tests.support.replicated_bus import single_bus
from tests.support.waiting import wait_for


@pytest.fixture
def hosts(tmp_path: Path, postgres: Postgres) -> Iterator[tuple[Host, Host]]:
    """Yield a host with a worker and a web server, and one with a web server."""
    with single_bus(tmp_path / "bus") as url:
        settings = {"BUS__URL": url, "STORAGE__URL": postgres.create_database()}
        with Host(tmp_path / "a", **settings) as first, Host(tmp_path / "b", **settings) as second:
            first.start_worker()
            first.start_web()
            second.start_web()
            yield first, second


def test_a_deploy_on_one_host_is_served_by_the_other(hosts: tuple[Host, Host]) -> None:
    first, second = hosts
    uid = make_uid()

    second.deploy(make_bundle(uid))
    written = second.ask("POST", f"/v1/pipelines/{uid}/records", {"content": "Ada likes tea"})

    assert written.status == 201
    assert first.contents(uid) == second.contents(uid) == ["Ada likes tea"]
    assert not (first.root / "system.db").exists() and not (second.root / "system.db").exists()


def test_a_revoked_key_is_dead_on_both_hosts(hosts: tuple[Host, Host]) -> None:
    first, second = hosts
    made = second.ask(
        "POST", "/v1/keys", {"name": "ann", "scopes": ["read", "admin"], "pipelines": ["*"]}
    )
    assert made.status == 201, made
    headers = {"authorization": f"Bearer {made.json['key']}"}
    ident = made.json["id"]

    def statuses(**headers: str) -> list[int]:
        return [host.ask("GET", "/v1/pipelines", **headers).status for host in hosts]

    # A host that knows of no key lets everybody in.
    wait_for(lambda: statuses() == [401, 401], "both hosts require a key")
    wait_for(lambda: statuses(**headers) == [200, 200], "both hosts know the key")
    assert first.ask("DELETE", f"/v1/keys/{ident}", **headers).status == 204

    wait_for(lambda: statuses(**headers) == [401, 401], "both hosts refuse the key")


def test_another_host_serves_the_records_of_one_that_was_stopped(hosts: tuple[Host, Host]) -> None:
    first, second = hosts
    uid = make_uid()
    first.deploy(make_bundle(uid))
    first.ask("POST", f"/v1/pipelines/{uid}/records", {"content": "Ada likes tea"})
    second.start_worker()

    first.processes[0].stop()

    second.await_contents(uid, ["Ada likes tea"])
    second.ask("POST", f"/v1/pipelines/{uid}/records", {"content": "and milk"})
    assert first.contents(uid) == second.contents(uid) == ["Ada likes tea", "and milk"]


def test_an_erased_text_is_in_no_file_of_postgresql(
    hosts: tuple[Host, Host], postgres: Postgres
) -> None:
    first, _ = hosts
    uid, text = make_uid(), "xyzzy-0b1f"
    first.deploy(make_bundle(uid))
    first.ask("POST", f"/v1/pipelines/{uid}/records", {"content": text})

    asked = first.ask("POST", f"/v1/pipelines/{uid}/records/erase", {"text": text})
    assert asked.status == 200, asked

    def has_ended() -> bool:
        answer = first.ask("POST", f"/v1/pipelines/{uid}/records/erasures", {})
        assert answer.status == 200, answer
        return answer.json["items"][0]["ended_at"] is not None

    wait_for(has_ended, "the erasure has ended")
    postgres.query("CHECKPOINT")
    files = [file for file in postgres.data.rglob("*") if file.is_file()]
    assert not any(text.encode() in file.read_bytes() for file in files)
    assert first.contents(uid) == []
