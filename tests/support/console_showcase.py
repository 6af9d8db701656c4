"""A support desk with something real on every page of the console, made through public interfaces.

`PAGES` is the list of all pages. To add a page, add a line, and what it shows to `fill_showcase`.
"""

import time
from typing import Any
from urllib.parse import quote

from tests.support.bundles import Json, make_agent, make_bundle, make_commands, make_uid
from tests.support.console_content import PERSON, RECIPE, post
from tests.support.figures import fill_week
from tests.support.http import ask
from tests.support.pages import deploy_bundle
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem

# The address of each page, by the name of its picture. The fields in braces are those of
# `fill_showcase`.
PAGES: dict[str, str] = {
    "home": "/",
    "pipelines": "/pipelines",
    "new-pipeline": "/pipelines/new",
    "find": "/find?q=Ada",
    "status": "/status",
    "status-week": "/status?span=week",
    "first-key": "/keys",
    "api-reference": "/docs",
    "api-group": "/docs/records",
    "overview": "/pipelines/{uid}",
    "editor": "/pipelines/{uid}/edit",
    "figures": "/pipelines/{uid}/figures",
    "memory": "/pipelines/{uid}/memory",
    "search": "/pipelines/{uid}/memory?q=setting+the+usrname&compare=fts",
    "record": "/pipelines/{uid}/memory/{guid}",
    "record-json": "/pipelines/{uid}/memory/{json_guid}",
    "record-deleted": "/pipelines/{uid}/memory/{deleted_guid}",
    "record-erased": "/pipelines/{uid}/memory/{erased_guid}?erasure={erasure}",
    "messages": "/pipelines/{uid}/messages?text=tea",
    "message": "/pipelines/{uid}/messages/{entry}",
    "dead-letters": "/dead-letters",
    "dead-letter-group": "/dead-letters?pipeline={uid}&reason={reason}",
    "dead-letter": "/dead-letters/{uid}/{letter}",
    "versions": "/pipelines/{uid}/bundle?from=1&to=2",
    "webhooks": "/pipelines/{uid}/webhooks",
    "endpoint": "/pipelines/{uid}/endpoints/{endpoint}",
    "deliveries": "/pipelines/{uid}/deliveries",
    "delivery": "/pipelines/{uid}/deliveries/{delivery}",
    "rehearsals": "/pipelines/{uid}/rehearsals",
    "rehearsal": "/pipelines/{uid}/rehearsals/{rehearsal}",
    "policies": "/pipelines/{uid}/policies?scan=1",
    "tests": "/pipelines/{uid}/tests",
    "review": "/pipelines/{uid}/reviews?store={store}",
    "replay": "/pipelines/{uid}/replay",
    "undo": "/pipelines/{uid}/undo?source=memory_write",
    "captured": "/pipelines/{uid}/captured",
    "people": "/pipelines/{uid}/people",
    "person": "/pipelines/{uid}/people?sort=user&of=Ada",
    "graph": "/pipelines/{uid}/graph",
    "named-memories": "/pipelines/{uid}/memories",
    "named-memory": "/pipelines/{uid}/memories/{memory}?entry={memory_entry}",
    "recipes": "/pipelines/{uid}/recipes?recipe=facts",
    "facts": "/memories?pipeline={uid}",
    "episodes": "/memories?pipeline={uid}&tab=episodes",
    "fact": "/memories/{uid}/{fact}",
}
# The pages of a server that has keys.
KEY_PAGES = {"login": "/login", "keys": "/keys"}
# The pages of a pipeline without records, messages and further versions.
EMPTY_PAGES = {
    name: f"/pipelines/{{empty}}/{path}"
    for name, path in (
        ("memory", "memory"),
        ("versions", "bundle"),
        ("webhooks", "webhooks"),
        ("rehearsals", "rehearsals"),
        ("policies", "policies"),
        ("review", "reviews"),
        ("replay", "replay"),
        ("captured", "captured"),
        ("people", "people"),
        ("graph", "graph"),
        ("messages", "messages"),
        ("named-memories", "memories"),
        ("recipes", "recipes"),
        ("deliveries", "deliveries"),
    )
}
RECORDS: tuple[Json, ...] = (
    {
        "content": "Ada set userName to v1.2.3 on Monday, after the import had failed twice",
        "kind": "fact",
        "source": "chat",
        "owner": "Ada",
        "key": "version",
        "tags": ["release"],
    },
    {
        "content": '{"order": 4711, "customer": "Ada Lovelace", "items": [{"sku": "GREENTEA",'
        ' "count": 2, "price": 4.5}, {"sku": "CUP", "count": 1, "price": 12}], "paid": true,'
        ' "note": null}',
        "kind": "event",
        "source": "shop",
        "owner": "Ada",
        "tags": ["order"],
        "data": {"order": 4711, "customer": "Ada Lovelace", "paid": True},
    },
    {"content": "Ben prefers dark roast coffee, without sugar", "kind": "fact", "owner": "Ben"},
    {
        "content": "The customer meeting is at 3pm in the green room. Bring the October figures.",
        "kind": "note",
        "tags": ["team", "meeting"],
    },
    {"content": "شكرا جزيلا على القهوة", "kind": "note", "owner": "Layla"},
    {
        "content": "# Runbook\n\n- stop the importer\n- back up the store\n- deploy, and watch lag",
        "kind": "procedure",
        "expires_at": "2090-01-01",
    },
)
TURNS = (
    ("user", "Why does the import of the orders fail since yesterday?"),
    ("assistant", "The shop sends `total` as a text now. The filter expects a number."),
    ("user", "Fix the filter and add a test."),
)
ENTITIES = (
    ("Ada", "person", "Leads the support desk"),
    ("Ben", "person", "Prefers dark roast coffee"),
    ("Shop", "project", "Sells tea and cups"),
    ("Importer", "service", "Reads the orders each hour"),
    ("London", "city", "Where the desk is"),
)
RELATIONS = (
    ("Ada", "lives in", "London"),
    ("Ada", "works on", "Shop"),
    ("Ben", "works on", "Shop"),
    ("Shop", "uses", "Importer"),
)
VIEWS = [
    {"name": "facts", "per": "owner", "show": {"latest": "key"}},
    {"name": "everything", "per": "owner", "show": {"top": {"by": "created_at", "order": "desc"}}},
]
POLICY = {
    "name": "strangers wait",
    "match": {"filter": {"source": {"eq": "stranger"}}},
    "action": "review",
}
REDACT = {"name": "cards", "match": {"find": "credit_card"}, "action": "redact"}


def fill_showcase(web_system: WebSystem) -> dict[str, str]:
    """Fill all pages, and return the fields of their addresses."""
    uid, empty = make_uid(), make_uid()
    store = {"memory_id": f"instances/{uid}/memories", "views": VIEWS}
    endless = make_agent("importer", "add_1", on="orders", to="orders")
    agents = [PERSON, *make_commands(), endless]
    bundle = make_bundle(uid, *agents, name="Support desk", stores=[store], inputs_days=4)
    deploy_bundle(web_system.url, bundle)
    deploy_bundle(web_system.url, make_bundle(empty, PERSON, *make_commands(), name="Empty"))
    fill_week(web_system.system.root, [uid], time.time())
    fields = {"uid": uid, "empty": empty, "store": f"instances/{uid}/memories"}
    fields |= _write_records(web_system, uid)
    fields |= _send_messages(web_system, uid)
    fields |= _send_webhooks(web_system, uid)
    fields |= _write_nouns(web_system, uid)
    _hold_for_review(web_system, uid)
    fields |= _rehearse(web_system, uid, bundle)
    deploy_bundle(web_system.url, bundle | {"pipeline_desc": "Answers for the shop"})
    return fields


def _write_records(web_system: WebSystem, uid: str) -> dict[str, str]:
    base = f"/v1/pipelines/{uid}/records"
    guids = [post(web_system, base, one)["guid"] for one in RECORDS]
    changed = {"content": f"{RECORDS[0]['content']}, and once on Tuesday"}
    ask(web_system.url, "PATCH", f"{base}/{guids[0]}", changed)
    deleted = post(web_system, base, {"content": "No longer needed"})["guid"]
    ask(web_system.url, "DELETE", f"{base}/{deleted}")
    erased = post(web_system, base, {"content": "The phone number of Ben"})["guid"]
    answer = post(web_system, f"{base}/erase", {"guids": [erased], "reason": "Ben asked for it"})
    return {
        "guid": guids[0],
        "json_guid": guids[1],
        "deleted_guid": deleted,
        "erased_guid": erased,
        "erasure": str(answer["number"]),
    }


def _send_messages(web_system: WebSystem, uid: str) -> dict[str, str]:
    """Send messages to the chat, and two that fail for good."""
    base = f"/v1/pipelines/{uid}"
    path = f"{base}/swarms/chat/messages?wait=60"
    texts = "/write Ada drinks green tea in the morning", "/search tea", "/read"
    (entry, *_) = [post(web_system, path, {"text": text})["message_id"] for text in texts]
    for text in ("1", "1000"):
        post(web_system, f"{base}/swarms/orders/messages", {"text": text})
    letters = f"/v1/dead-letters?pipeline={uid}"
    (letter, _) = wait_for(
        lambda: len(found := ask(web_system.url, "GET", letters).json["items"]) > 1 and found,
        "the dead letters",
    )
    return {
        "entry": entry,
        "letter": letter["id"],
        "reason": quote(letter["error"].splitlines()[0]),
    }


def _send_webhooks(web_system: WebSystem, uid: str) -> dict[str, str]:
    """Receive a webhook, and send one to an endpoint, which the guarded client refuses."""
    hook = f"/webhooks/{uid}/memory_write_"
    ask(web_system.url, "POST", hook, {"text": "An order of 3 cups has arrived"})
    ask(web_system.url, "GET", hook)
    path = f"/v1/pipelines/{uid}/endpoints"
    given = {"url": "https://127.0.0.1/hook", "description": "The shop's inbox"}
    endpoint = post(web_system, path, given)["endpoint"]["id"]
    delivery = post(web_system, f"{path}/{endpoint}/test", {})["delivery"]
    return {"endpoint": endpoint, "delivery": delivery}


def _write_nouns(web_system: WebSystem, uid: str) -> dict[str, str]:
    """Write named memories, a recipe, facts, an episode, a user and a captured session."""
    base = f"/v1/pipelines/{uid}"
    written: Any = {}
    for name, text in (
        ("Shop rules", "Refunds over 100 EUR need a second pair of eyes"),
        ("Customer", "Customer prefers email over phone calls"),
    ):
        fact = {"memory": name, "content": text, "tags": ["crm"]}
        written = post(web_system, f"{base}/entries", fact)
    post(web_system, f"{base}/recipes", {"definition": RECIPE})
    for key, value in (("favorite_drink", "green tea"), ("address", {"city": "London", "zip": 5})):
        stored = post(web_system, f"{base}/facts/{key}/set", {"value": value})
    episode = post(web_system, f"{base}/episodes/begin", {"agent_id": "a1", "trigger_type": "chat"})
    post(web_system, f"{base}/episodes/{episode['id']}/complete", {"success": True})
    user = {"channel": "telegram", "channel_id": "7", "display_name": "Ada"}
    post(web_system, f"{base}/users/identify", user)
    _draw_graph(web_system, base)
    item = {"project": "git.example.com/shop", "branch": "main", "tool": "codex"}
    messages = [{"role": role, "content": text, "item": item} for role, text in TURNS]
    call = {"thread": "capture/codex/s1", "agent": "codex", "messages": messages}
    post(web_system, f"{base}/turns/add", call)
    return {
        "memory": written["memory_id"],
        "memory_entry": written["id"],
        "fact": str(stored["fact"]["id"]),
    }


def _draw_graph(web_system: WebSystem, base: str) -> None:
    entities = [
        {"name": name, "entity_type": kind, "observations": [text]} for name, kind, text in ENTITIES
    ]
    post(web_system, f"{base}/knowledge_graph/create_entities", {"entities": entities})
    names = ("from_entity", "relation_type", "to_entity")
    relations = [dict(zip(names, one, strict=True)) for one in RELATIONS]
    post(web_system, f"{base}/knowledge_graph/create_relations", {"relations": relations})


def _hold_for_review(web_system: WebSystem, uid: str) -> None:
    base = f"/v1/pipelines/{uid}"
    for policy in (POLICY, REDACT):
        ask(web_system.url, "POST", f"{base}/policies/set", {"policy": policy})
    stranger = {"content": "Ada drinks black tea in the morning", "source": "stranger"}
    post(web_system, f"{base}/records", stranger)
    post(web_system, f"{base}/records", {"content": "The card 4111 1111 1111 1111 was refused"})


def _rehearse(web_system: WebSystem, uid: str, bundle: Json) -> dict[str, str]:
    """Rehearse a bundle that would forget a command."""
    path = f"/v1/pipelines/{uid}/rehearsals"
    agents = [one for one in bundle["agents"] if one.get("wf_agent_name") != "dispatch_write"]
    candidate = bundle | {"agents": agents}
    ident = post(web_system, path, {"bundle": candidate})["id"]
    wait_for(
        lambda: ask(web_system.url, "GET", f"{path}/{ident}").json["status"] != "running",
        "the end of the rehearsal",
    )
    return {"rehearsal": ident}
