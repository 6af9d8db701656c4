"""A pipeline with something to see on every page of the console."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from playwright.sync_api import Browser

from tests.support.browser import chromium
from tests.support.bundles import (
    Json,
    make_agent,
    make_bundle,
    make_commands,
    make_uid,
)
from tests.support.http import ask
from tests.support.pages import deploy_bundle
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

RECORDS: tuple[Json, ...] = (
    {"content": "The meeting is at 3pm in the green room", "kind": "note", "tags": ["team"]},
    {"content": "Ada set userName to v1.2.3 on Monday", "kind": "fact", "source": "Ada"},
    {"content": "Ben prefers dark roast coffee, without sugar", "kind": "fact", "scope": "people"},
    {"content": "شكرا جزيلا على القهوة", "kind": "note"},
    {"content": "# Plan\n\n- back up\n- deploy", "kind": "note", "expires_at": "2090-01-01"},
)
RECIPE: Json = {
    "id": "facts",
    "label": "Facts",
    "retrieval": {
        "pipeline": [{"type": "vector_search", "collection": "memory:Customer", "minScore": 0}]
    },
}

PERSON: Json = {
    "agent_class": "chat_agent",
    "agent_alias": "person",
    "agent_name": "User",
    "agent_rec_swarm": "chat",
    "agent_send_swarm": "chat",
    "wf_publish_results": True,
}


class Content(NamedTuple):
    """The addresses of the pages, by title, and what they show."""

    uid: str
    guid: str
    addresses: dict[str, str]


class Opened(NamedTuple):
    """A product with something on every page, and a browser."""

    web_system: WebSystem
    content: Content
    browser: Browser


@contextmanager
def open_console() -> Iterator[Opened]:
    """Start a product, fill its pages, and start a browser."""
    with WebSystem() as web_system, chromium() as browser:
        yield Opened(web_system, fill_console(web_system), browser)


def post(web_system: WebSystem, path: str, body: Json) -> Any:
    """Send JSON and return the JSON of the answer, which must be a success."""
    answer = ask(web_system.url, "POST", path, body)
    assert answer.status in (200, 201, 202, 204), answer
    return answer.json


def fill_console(web_system: WebSystem) -> Content:
    """Deploy a pipeline and give each page something to show."""
    endless = make_agent("endless", "add_1", on="loop", to="loop")
    uid = deploy_bundle(web_system.url, make_bundle(make_uid(), PERSON, *make_commands(), endless))
    base = f"/v1/pipelines/{uid}"
    guid, *_ = [post(web_system, f"{base}/records", one)["guid"] for one in RECORDS]
    ask(
        web_system.url,
        "PATCH",
        f"{base}/records/{guid}",
        {"content": f"{RECORDS[0]['content']} now"},
    )
    entry = post(
        web_system, f"{base}/swarms/chat/messages?wait=60", {"text": "/write from the chat"}
    )
    post(web_system, f"{base}/swarms/loop/messages", {"text": "1"})
    ask(web_system.url, "GET", f"/webhooks/{uid}/memory_write_")
    (letter,) = wait_for(
        lambda: ask(web_system.url, "GET", f"/v1/dead-letters?pipeline={uid}").json["items"],
        "the dead letter",
    )
    addresses = _addresses(uid, guid, entry["message_id"], letter["id"])
    addresses |= _endpoint_addresses(web_system, uid)
    return Content(uid, guid, addresses | _named_addresses(web_system, uid))


def _named_addresses(web_system: WebSystem, uid: str) -> dict[str, str]:
    """Write a named memory and a recipe. Return the addresses of their pages."""
    fact = {"memory": "Customer", "content": "Customer prefers email", "tags": ["crm"]}
    entry = post(web_system, f"/v1/pipelines/{uid}/entries", fact)
    post(web_system, f"/v1/pipelines/{uid}/recipes", {"definition": RECIPE})
    base = f"/pipelines/{uid}"
    return {
        "Named memories": f"{base}/memories",
        "Named memory": f"{base}/memories/{entry['memory_id']}?entry={entry['id']}",
        "Recipes": f"{base}/recipes?recipe={RECIPE['id']}",
    }


def _endpoint_addresses(web_system: WebSystem, uid: str) -> dict[str, str]:
    """Create an endpoint with a delivery, which the guarded client refuses. Return their pages."""
    path, base = f"/v1/pipelines/{uid}/endpoints", f"/pipelines/{uid}"
    endpoint = post(web_system, path, {"url": "https://127.0.0.1/hook"})["endpoint"]["id"]
    delivery = post(web_system, f"{path}/{endpoint}/test", {})["delivery"]
    return {
        "Endpoint": f"{base}/endpoints/{endpoint}",
        "Deliveries": f"{base}/deliveries",
        "Delivery": f"{base}/deliveries/{delivery}",
    }


def _addresses(uid: str, guid: str, entry: str, letter: str) -> dict[str, str]:
    base = f"/pipelines/{uid}"
    return {
        "Home": "/",
        "Pipelines": "/pipelines",
        "Find": "/find?q=meeting",
        "Status": "/status",
        "Keys": "/keys",
        "API reference": "/docs",
        "API group": "/docs/records",
        "Overview": base,
        "Figures": f"{base}/figures",
        "Memory": f"{base}/memory",
        "Search": f"{base}/memory?q=setting+the+usrname&compare=fts",
        "Record": f"{base}/memory/{guid}",
        "Messages": f"{base}/messages",
        "Message trace": f"{base}/messages/{entry}",
        "Dead letters": "/dead-letters",
        "Dead letter": f"/dead-letters/{uid}/{letter}",
        "Versions": f"{base}/bundle",
        "Webhooks": f"{base}/webhooks",
        "Rehearsals": f"{base}/rehearsals",
        "Policies": f"{base}/policies?scan=1",
        "Tests": f"{base}/tests",
        "Review": f"{base}/reviews",
        "Replay": f"{base}/replay",
        "Captured": f"{base}/captured",
        "Agent memory": f"/memories?pipeline={uid}",
    }
