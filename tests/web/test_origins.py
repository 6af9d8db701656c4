"""What a web server writes has its key, way in and signature as its origin."""

from collections.abc import Iterator

import pytest

from tests.support.bundles import make_commands, make_memory
from tests.support.http import ask
from tests.support.keys import ApiKey, await_closed, make_key
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem
from tests.support.webhook_senders import mac

SECRET, BODY = "sesame-secret", b'{"action": "opened"}'
ORIGINS = (
    "SELECT actor, sender, profile, verdict, origins.key, agent FROM records "
    "JOIN origins ON origins.id = records.origin ORDER BY row"
)
OTHER = "instances/${pipeline_uid}/notes"


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[WebSystem, ApiKey, str]]:
    with WebSystem(secrets={"SECRET": SECRET}) as web_system:
        key = make_key(web_system.system.root)
        await_closed(web_system)
        hook = make_memory("write", senders="nobody", alias="hook")
        hook |= {"wf_webhook_sender": "github", "wf_webhook_secret": "env:SECRET"}
        # It writes to a second store, so its step is a continuation.
        note = make_memory("write", senders="hook", memory_id=OTHER, alias="note")
        uid = web_system.deploy(*make_commands(), hook, note)
        yield web_system, key, uid


def test_records_have_the_origin_of_their_requests(
    served: tuple[WebSystem, ApiKey, str],
) -> None:
    web_system, key, uid = served
    system = web_system.system

    def post(path: str, body: bytes, **headers: str) -> None:
        headers = headers or key.headers
        answer = ask(web_system.url, "POST", path, body, headers)
        assert answer.status in (200, 201, 202), answer

    post(f"/v1/pipelines/{uid}/swarms/chat/messages?wait=10", b"/write one")
    post(f"/v1/pipelines/{uid}/records", b'{"content": "two"}')
    signature = f"sha256={mac(SECRET, BODY).hex()}"
    named = {
        "X_GitHub_Event": "issues",
        "X_GitHub_Delivery": "d",
        "Content_Type": "application/json",
    }
    post(f"/webhooks/{uid}/hook_", BODY, X_Hub_Signature_256=signature, **named)
    system.client.answer(uid, "/write four")
    wait_for(lambda: system.contents(uid, "notes"), "the step in the second store has run")

    assert system.rows(uid, ORIGINS) == [
        ("memory_write", "User", "rest", "", key.id, "memory_write_"),
        ("test", "", "rest", "", key.id, ""),
        ("hook", "webhook", "webhook:github", "verified", "", "hook_"),
        ("memory_write", "User", "", "", "", "memory_write_"),
    ]
    (note,) = system.rows(uid, ORIGINS, "notes")
    assert note[2:] == ("webhook:github", "verified", "", "note_")
    guid = system.rows(uid, "SELECT guid FROM records WHERE content = 'two'")[0][0]
    page = ask(web_system.url, "GET", f"/pipelines/{uid}/memory/{guid}", b"", key.headers)
    shown = page.body.decode()
    assert "Where this came from" in shown and f"key <bdi>{key.id}</bdi>" in shown


def test_the_page_undo_shows_what_an_undo_would_do(served: tuple[WebSystem, ApiKey, str]) -> None:
    web_system, key, uid = served
    path = f"/v1/pipelines/{uid}/records"
    made = ask(web_system.url, "POST", path, {"content": "to undo"}, key.headers).json
    page = f"/pipelines/{uid}/undo"

    def show(query: str) -> str:
        answer = ask(web_system.url, "GET", f"{page}?{query}", b"", key.headers)
        assert answer.status == 200, answer
        return answer.body.decode()

    assert "Preview</h2>" not in show("")
    assert "0 new records would be deleted, and 0 brought back." in show("source=nobody")
    assert "a time such as" in show("since=soon")
    shown = show(f"key={key.id}")
    assert "would be deleted" in shown and "Undo up to 500 records" in shown
    done = ask(web_system.url, "POST", f"{path}/undo", {"key": key.id}, key.headers).json
    assert done["deleted"] >= 1
    assert ask(web_system.url, "GET", f"{path}/{made['guid']}", b"", key.headers).status == 404
