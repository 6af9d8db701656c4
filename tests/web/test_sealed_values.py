"""Sealed values over HTTP and the command line: no file contains them, and reseal rotates them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.calls import call
from tests.support.http import Answer, ask
from tests.support.program import Completed, environment_without_settings, run_anywhere
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

REST, KV = "/api/storage/memory", "/api/kv"
OLD, NEW = bytes(range(32)).hex(), bytes(range(1, 33)).hex()
SECRET = "plaintext-canary"
PUT, GET = ("items", "put", "--no-in-context"), ("items", "get", "--internal")


class Sealed(NamedTuple):
    """A server with one pipeline and two seal keys, both first with the same value."""

    web_system: WebSystem
    uid: str
    keys: Path

    @property
    def variables(self) -> dict[str, str]:
        """The settings of a command."""
        system = self.web_system.system
        return environment_without_settings() | {
            "MEMRELAY_BUS__URL": f"unix://{system.client.socket}",
            "MEMRELAY_MEMORY__ROOT": str(system.root),
            "MEMRELAY_MEMORY__SEAL_KEYS": seal_keys(self.keys),
        }

    def run(self, *words: str, **variables: str) -> Completed:
        """Run a command."""
        folder = self.web_system.system.folder
        return run_anywhere(list(words), folder, self.variables | variables, b"")

    def get(self, path: str) -> Any:
        """Return the body of an answer 200."""
        answer = self.web_system.get(path)
        assert answer.status == 200, answer
        return answer.json

    def send(self, method: str, path: str, body: dict[str, Any], **headers: str) -> Answer:
        """Send a request with a body."""
        return ask(self.web_system.url, method, path, body, headers)

    def put(self, key: str, value: Any, **headers: str) -> Answer:
        """Write an internal value over REST."""
        body = {"agentId": "a1", "value": value, "inContext": False}
        return self.send("PUT", f"{REST}/{key}", body, **headers)

    def files_with(self, text: str) -> list[str]:
        """Return the files of all processes that contain a text."""
        folder = self.web_system.system.folder
        files = [file for file in folder.rglob("*") if file.is_file()]
        assert len(files) > 5
        return [file.name for file in files if text.encode() in file.read_bytes()]


def seal_keys(folder: Path) -> str:
    return f"file:{folder / 'a.key'},file:{folder / 'b.key'}"


@pytest.fixture(scope="module")
def sealed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sealed]:
    keys = tmp_path_factory.mktemp("keys")
    for name in ("a.key", "b.key"):
        (keys / name).write_text(OLD)
    with WebSystem(MEMORY__SEAL_KEYS=seal_keys(keys)) as web_system:
        yield Sealed(web_system, web_system.deploy(), keys)


def test_no_file_contains_a_value_that_an_interface_sealed(sealed: Sealed) -> None:
    put = sealed.put("rest", f"{SECRET}-rest", Idempotency_Key="once")
    again = sealed.put("rest", f"{SECRET}-rest", Idempotency_Key="once")
    assert (put.status, put.json["value"], put.json["created"]) == (200, None, True), put
    assert again.json == put.json
    body = {"agentId": "a1", "key": "kv", "value": {"token": f"{SECRET}-kv"}}
    assert sealed.send("POST", KV, body).status == 200
    body = {"agent": "a1", "store": "a1", "value": [f"{SECRET}-v1"], "in_context": False}
    assert sealed.send("PUT", f"/v1/pipelines/{sealed.uid}/items/v1", body).status == 200
    command = [*PUT, sealed.uid, "--agent", "a1", "a1", "cli", f"{SECRET}-cli"]
    assert sealed.run(*command).code == 0

    assert sealed.get(f"{REST}/rest?agentId=a1")["value"] == f"{SECRET}-rest"
    found = sealed.get(f"{KV}?agentId=a1&key=kv")
    assert found == {"found": True, "value": {"token": f"{SECRET}-kv"}}
    assert sealed.get(f"{REST}/cli?agentId=a1")["value"] == f"{SECRET}-cli"
    got = sealed.run(*GET, sealed.uid, "--agent", "a1", "a1", "v1")
    assert got.lines[0]["value"] == [f"{SECRET}-v1"]
    assert sealed.get(f"{REST}?agentId=a1")["entries"] == []
    assert sealed.get(f"{REST}?agentId=a1&action=search&q={SECRET}")["results"] == []
    assert sealed.files_with(SECRET) == []
    # The scan finds what is not sealed.
    visible = {"agentId": "a1", "value": "visible-canary"}
    assert sealed.send("PUT", f"{REST}/visible", visible).status == 200
    assert sealed.files_with("visible-canary")


def test_a_sealed_value_that_was_changed_is_no_fault_of_the_server(sealed: Sealed) -> None:
    sealed.put("changed", f"{SECRET}-changed")
    entry = {"agent": "a1", "store": "a1", "key": "changed"}
    # Only calls that come from no interface show and store sealed texts.
    text = call(sealed.web_system.system, sealed.uid, "items.get", entry | {"internal": True})
    last = "A" if text["value"][-10] != "A" else "B"
    changed = f"{text['value'][:-10]}{last}{text['value'][-9:]}"
    call(
        sealed.web_system.system,
        sealed.uid,
        "items.put",
        entry | {"value": changed, "in_context": False},
    )

    for path in (f"{REST}/changed?agentId=a1", f"{KV}?agentId=a1&key=changed"):
        answer = sealed.web_system.get(path)
        assert (answer.status, "does not open" in str(answer.json)) == (422, True), answer
    path = f"/v1/pipelines/{sealed.uid}/items/changed?agent=a1&store=a1&internal=true"
    assert sealed.web_system.get(path).status == 422
    call(sealed.web_system.system, sealed.uid, "items.delete", entry)


def test_reseal_rotates_and_seals_all_internal_values(sealed: Sealed) -> None:
    agents = {"agentId": "r1", "inContext": False}
    for key in ("k1", "k2"):
        body = agents | {"value": f"{SECRET}-{key}"}
        assert sealed.send("PUT", f"{REST}/{key}", body).status == 200
    command = [*PUT, sealed.uid, "--agent", "r1", "r1", "plain", "unsealed"]
    assert sealed.run(*command, MEMRELAY_MEMORY__SEAL_KEYS="").code == 0
    # The store of another agent, in a chat that has ended.
    opened = sealed.send(
        "POST",
        f"/v1/pipelines/{sealed.uid}/contexts/room/open",
        {"agent": "r1", "sort": "chat", "ttl_s": 3600},
    )
    assert opened.status == 200, opened
    body = agents | {"store": "room", "chatId": "room", "value": "in the room"}
    assert sealed.send("PUT", f"{REST}/k", body).status == 200
    _write_without_later_access(sealed)
    (sealed.keys / "a.key").write_text(NEW)

    ended = sealed.run("reseal", sealed.uid, "--json")
    again = sealed.run("reseal", sealed.uid, "--json")

    counts = ended.lines[0]
    assert (ended.code, counts["sealed"], counts["failed"]) == (0, 1, 0), ended
    assert counts["rotated"] >= 3
    assert again.lines[0]["current"] == counts["sealed"] + counts["rotated"] + counts["current"]
    # The new key alone opens all.
    only = {"MEMRELAY_MEMORY__SEAL_KEYS": f"file:{sealed.keys / 'a.key'}"}
    values = {("r1", "plain"): "unsealed", ("room", "k"): "in the room", ("r1", "theirs"): "g1's"}
    for (store, key), value in values.items():
        words = [*GET, sealed.uid, "--agent", "r1", store, key, "--chat", "room"]
        assert sealed.run(*words, **only).lines[0]["value"] == value
    assert sealed.run(*GET, sealed.uid, "--agent", "r1", "r1", "k1", **only).code == 0


def _write_without_later_access(sealed: Sealed) -> None:
    """Let g1 write in the store of r1, lower its grant, and switch off its memory."""
    share = {"agentId": "r1", "grantee": "g1"}
    for level in ("readwrite", "read"):
        assert sealed.send("POST", f"{REST}/?action=share", share | {"level": level}).status == 200
        if level == "readwrite":
            body = {"agentId": "g1", "store": "r1", "value": "g1's", "inContext": False}
            assert sealed.send("PUT", f"{REST}/theirs", body).status == 200
    off = {"agent": "g1", "enabled": False}
    configured = sealed.send("POST", f"/v1/pipelines/{sealed.uid}/stores/configure", off)
    assert configured.status == 200, configured


def test_an_import_seals_internal_values(sealed: Sealed) -> None:
    source, target = sealed.web_system.deploy(), sealed.web_system.deploy()
    command = [*PUT, source, "--agent", "a1", "a1", "moved", "unsealed"]
    assert sealed.run(*command, MEMRELAY_MEMORY__SEAL_KEYS="").code == 0
    file = str(sealed.web_system.system.folder / "moved.export")
    assert sealed.run("export", source, "--records", "--internal", "-o", file).code == 0

    first, again = [sealed.run("import", target, file, "--json").lines[0] for _ in range(2)]

    assert (first["added"], again["same"]) == (1, 1)
    words = [*GET, target, "--agent", "a1", "a1", "moved"]
    assert sealed.run(*words).lines[0]["value"] == "unsealed"
    assert "'moved' is sealed" in sealed.run(*words, MEMRELAY_MEMORY__SEAL_KEYS="").err
    for uid in (source, target):
        sealed.web_system.system.remove(uid)


def test_without_its_seal_key_an_internal_value_is_503_and_others_are_not(sealed: Sealed) -> None:
    assert sealed.put("lost", "x").status == 200
    words = [*GET, sealed.uid, "--agent", "a1", "a1", "lost"]
    got = sealed.run(*words, MEMRELAY_MEMORY__SEAL_KEYS="")
    assert (got.code, "'lost' is sealed" in got.err) == (1, True), got
    for name in ("a.key", "b.key"):
        (sealed.keys / name).rename(sealed.keys / f"{name}.away")
    try:
        _await_status(sealed, 503)
        assert sealed.put("other", "x").status == 503
        visible = {"agentId": "a1", "value": "x"}
        assert sealed.send("PUT", f"{REST}/visible", visible).status == 200
        assert sealed.get(f"{REST}?agentId=a1") is not None
    finally:
        for name in ("a.key", "b.key"):
            (sealed.keys / f"{name}.away").rename(sealed.keys / name)
    _await_status(sealed, 200)


def _await_status(sealed: Sealed, status: int) -> None:
    path = f"{REST}/lost?agentId=a1"
    wait_for(lambda: sealed.web_system.get(path).status == status, f"the answer is {status}")
