"""The texts of the console: titles, buttons, empty states and messages, where they are shown."""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import pytest

from tests.support.bundles import make_bundle, make_commands, make_uid
from tests.support.console_content import PERSON, fill_console, post
from tests.support.http import ask
from tests.support.keys import await_closed, make_key
from tests.support.pages import deploy_bundle
from tests.support.web_system import WebSystem

CONSOLE = Path(__file__).resolve().parents[2] / "memrelay" / "web" / "console"
# The texts of each page of `fill_console`, by its title there and a query.
TEXTS = {
    "Pipelines": ("Pipelines", "Find", "Dead letters", "Status", "Keys", "API reference"),
    "Overview": (
        "Overview", "Use from a shell", "Messages on chat", "Message", "Send", "Processed",
        "Enter sends, Shift+Enter adds a line.", "Listens on", "Accepts from", "Publishes to",
    ),
    "Memory": ("Memory", "Search", "Export"),
    "Memory?kind=none": ("Clear filters", "No results."),
    "Record": ("Edit", "Save", "Cancel", "Delete", "Restore this version", "Erase permanently"),
    "Record?from=1&to=2": ("Compare",),
    "Message trace": ("Message trace",),
    "Dead letters": ("Dead letters", "Replay all", "This action needs JavaScript."),
    "Dead letter": ("Replay", "Drop"),
    "Named memories": ("Named memories", "Test a text", "Write"),
    "Named memory": ("No earlier versions.",),
    "Webhooks": ("URLs for senders", "Last requests", "Endpoints", "Create"),
    "Endpoint": ("Send a test", "Switch off", "Send again", "Rotate", "Delete the endpoint"),
    "Deliveries": ("Waiting", "Delivered", "Failed"),
    "Delivery": ("Send again",),
    "Keys": ("Keys", "Create key", "No keys yet. Every program on this computer has access."),
    "Find": ("Find",),
    "Find?q=qwertz": ("No matches.",),
    "Recipes": ("Recipes", "Validate", "Run"),
    "API reference": ("API reference",),
    "API group": ("Try it", "Send request"),
}  # fmt: skip
EMPTY = {
    "/pipelines/{uid}": "No messages on chat yet.",
    "/pipelines/{uid}/memory": "No records yet.",
    "/pipelines/{uid}/memories": "No named memories yet.",
    "/pipelines/{uid}/recipes": "No recipes yet.",
    "/pipelines/{uid}/webhooks": "No requests yet.",
    "/pipelines/{uid}/replay": "This pipeline keeps no inputs.",
    "/dead-letters": "No dead letters.",
}
# The texts that appear only in a state that these tests do not make, by file.
IN_FILES = {
    "static/acting.js": (
        "This record has changed since you opened it.",
        "Save mine",
        "Keep theirs",
    ),
    "static/calls.js": (
        "You are logged out. Log in again.",
        "No response in time. The change may still be applied.",
        "Permission denied: ${",
    ),
    "static/refresh.js": (
        "The bus does not respond. Retrying every 5 seconds.",
        "You are logged out. Log in again.",
    ),
    "templates/fragments/keys.html": ("Revoke",),
    "templates/fragments/notices.html": ("A newer version is deployed. <a",),
    "templates/fragments/overview.html": ("No worker{%",),
    "templates/fragments/stats.html": ('"No worker"',),
    "templates/fragments/status.html": ("No workers are running.",),
    "templates/fragments/trace.html": (
        "Incomplete: older messages were trimmed from the log.",
        "No results and no records",
    ),
    "templates/named_memory.html": (">Move<", '"Split"'),
}  # fmt: skip
OLD = (
    "There is no such thing", "Not let in", "Not from here", "Said on", "Nothing has been said",
    "Say something", "Say it", "Enter says it", "How it fares", "From elsewhere", "nobody",
    "Hears on", "From whom", "Says on", "is in service by now",
)  # fmt: skip


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    with WebSystem() as found:
        yield found


def read_text(web_system: WebSystem, path: str, status: int = 200, **headers: str) -> str:
    """Return the text of a page, without markup."""
    page = web_system.get(path, **headers)
    assert page.status == status, page
    return " ".join(unescape(re.sub(r"<[^>]+>", "", page.body.decode())).split())


def test_the_pages_without_content_say_so() -> None:
    with WebSystem() as web_system:
        assert "No pipelines yet. Deploy one: memrelay deploy FILE" in read_text(
            web_system, "/pipelines"
        )
        uid = deploy_bundle(web_system.url, make_bundle(make_uid(), PERSON, *make_commands()))
        found = {path: read_text(web_system, path.format(uid=uid)) for path in EMPTY}

    assert [path for path, text in EMPTY.items() if text not in found[path]] == []


def test_each_page_has_its_texts(web_system: WebSystem) -> None:
    content = fill_console(web_system)

    for name, texts in TEXTS.items():
        title, _, query = name.partition("?")
        path = content.addresses[title]
        if query:
            path = f"{path.partition('?')[0]}?{query}"
        shown = read_text(web_system, path)
        assert [text for text in texts if text not in shown] == [], name


def test_a_deleted_record_offers_undo(web_system: WebSystem) -> None:
    uid = deploy_bundle(web_system.url, make_bundle(make_uid(), PERSON, *make_commands()))
    guid = post(web_system, f"/v1/pipelines/{uid}/records", {"content": "tea"})["guid"]
    page = f"/pipelines/{uid}/memory/{guid}"
    assert "No earlier versions." in read_text(web_system, page)

    ask(web_system.url, "DELETE", f"/v1/pipelines/{uid}/records/{guid}")

    assert "Undo" in read_text(web_system, page)
    absent = read_text(web_system, f"/pipelines/{uid}/memory/{guid[:-4]}0000", 404)
    assert "Record not found. It may have expired or been erased." in absent


def test_missing_pages_and_scopes_are_named() -> None:
    with WebSystem() as web_system:
        assert "Page not found" in read_text(web_system, "/nothing", 404, Accept="text/html")
        key = make_key(web_system.system.root, "read")
        await_closed(web_system)
        shown = read_text(web_system, "/keys", 403, Authorization=f"Bearer {key.text}")

    assert 'Permission denied: this needs the scope "admin".' in shown
    assert shown.startswith("Permission denied")


def test_a_mistyped_command_gets_the_nearest_one(web_system: WebSystem) -> None:
    uid = deploy_bundle(web_system.url, make_bundle(make_uid(), PERSON, *make_commands()))

    answer = post(
        web_system, f"/v1/pipelines/{uid}/swarms/chat/messages?wait=60", {"text": "/wriet a"}
    )

    assert answer["hint"].startswith('Unknown command "/wriet". Did you mean "/write"? Commands: ')


def test_texts_of_rare_states_are_in_their_files() -> None:
    absent = {
        (name, text)
        for name, texts in IN_FILES.items()
        for text in texts
        if text not in (CONSOLE / name).read_text()
    }

    assert absent == set()


def test_no_old_text_is_left() -> None:
    files = [one for one in CONSOLE.rglob("*") if one.suffix in (".py", ".html", ".js")]
    own = [one for one in files if not one.name.startswith("idiomorph")]

    assert [(one.name, text) for one in own for text in OLD if text in one.read_text()] == []
    assert len(own) > 40
