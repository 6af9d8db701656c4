"""The AsyncAPI document of a pipeline."""

import json
import os
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from memrelay.pipelines.asyncapi import make_document, make_server
from memrelay.pipelines.check import check
from tests.pipelines.builders import UID, make_bundle, make_chat, make_memory, make_relay
from tests.support.npm import NODE, npm_packages

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
PARSER = Path(__file__).with_name("check_asyncapi.mjs")
ORDER = {
    "$defs": {"price": {"type": "number"}},
    "type": "object",
    "properties": {"price": {"$ref": "#/$defs/price"}, "parts": {"items": {"$ref": "#"}}},
}


def document_of(*agents: Json, **keys: Any) -> Json:
    bundle = check(make_bundle(*agents, **keys), uid=UID).accepted()
    return make_document(bundle, "rediss://me:secret@bus.example:6390/2", "https://x.example/base")


def test_servers_have_no_password() -> None:
    document = document_of(make_chat())

    assert document["servers"] == {
        "bus": {"host": "bus.example:6390", "protocol": "rediss", "pathname": "/2"},
        "web": {"host": "x.example", "protocol": "https", "pathname": "/base"},
    }
    assert "secret" not in json.dumps(document)
    assert make_server("unix:///run/bus.sock")["host"] == "localhost"
    assert "b:2" in make_server("cluster://u:p@a:1,b:2")["description"]


def test_a_pipeline_is_described_by_its_channels_and_operations() -> None:
    document = document_of(make_chat(), make_relay(), make_memory(agent_send_swarm="saved"))

    addresses = {name: one["address"] for name, one in document["channels"].items()}
    assert addresses == {
        "reply": "reply:{hash_tag}:{token}",
        "input": "pipeline:{hash_tag}:in",
        "ask": "pipeline:{hash_tag}:ask",
        "endpoints": None,
        "swarm-chat": "swarm:{hash_tag}:chat",
        "swarm-saved": "swarm:{hash_tag}:saved",
        "webhook-user": f"/webhooks/{UID}/user",
        "webhook-relay": f"/webhooks/{UID}/relay",
        "webhook-memory_write": f"/webhooks/{UID}/memory_write",
    }
    tag = document["channels"]["swarm-chat"]["parameters"]["hash_tag"]
    assert tag == {"enum": [f"{{{UID}}}"], "default": f"{{{UID}}}"}
    sends = document["operations"]["memory_write-send"]
    assert sends["action"] == "send"
    assert sends["messages"] == [{"$ref": "#/channels/swarm-saved/messages/memory_write"}]
    (ref,) = document["channels"]["swarm-saved"]["messages"]["memory_write"].values()
    message = document["components"]["messages"][ref.rpartition("/")[2]]
    assert "guid" in message["summary"]


def test_schemas_of_messages_are_part_of_the_document() -> None:
    document = document_of(
        make_memory(agent_send_swarm="saved", schema={"type": "object"}, on_mismatch="odd"),
        make_relay(agent_rec_swarm="odd", agent_send_swarm="odd"),
        swarms=[{"name": "chat", "schema": ORDER, "on_mismatch": "odd"}],
    )

    schema = document["components"]["schemas"]["text-chat"]
    assert schema["properties"]["price"] == {"$ref": "#/components/schemas/text-chat/$defs/price"}
    assert schema["properties"]["parts"]["items"] == {"$ref": "#/components/schemas/text-chat"}
    assert document["components"]["schemas"]["text-memory_write"] == {"type": "object"}
    assert {"chat-mismatch", "memory_write-mismatch"} <= document["operations"].keys()


def test_similar_names_stay_apart() -> None:
    chats = [make_chat(agent_alias=alias) for alias in ("a/b", "a~b", "a b", "a_b_2")]

    document = document_of(*chats)

    webhooks = [one for name, one in document["channels"].items() if name.startswith("webhook")]
    assert {one["address"] for one in webhooks} == {
        f"/webhooks/{UID}/{alias}" for alias in ("a%2Fb", "a~b", "a%20b", "a_b_2")
    }


def make_random_bundle(random: Random) -> Json:
    """Return a valid bundle with odd names, schemas, senders and public swarms."""
    names = random.sample(["chat", "a/b", "c d", "ünï", "#x", "%41", "a.b", "~1", "$ref", "é"], 4)
    schemas: list[Any] = [
        *(None, ORDER, {"type": "string", "pattern": "^a"}, {"items": False, "discriminator": {}}),
        {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"const": 1}]},
    ]
    swarms = [
        {"name": name, "visibility": random.choice(["private", "public"])}
        | {"schema": random.choice(schemas)}
        for name in names
    ]
    agents = []
    for number in range(random.randint(1, 5)):
        make = random.choice([make_chat, make_relay, make_memory])
        keys = {"agent_rec_swarm": random.choice(names), "agent_send_swarm": random.choice(names)}
        if make is not make_chat:
            keys["schema"] = random.choice(schemas)
        keys |= random.choice([{}, {"wf_webhook_text": "a.b"}, {"wf_webhook_each": "a"}])
        alias = f"{random.choice(names)} {number}"
        agents.append(make() | keys | {"agent_alias": alias})
    for part in (*swarms, *agents):
        heard = {one["agent_rec_swarm"] for one in agents}
        heard -= {part.get("name"), part.get("agent_rec_swarm")}
        if part.get("schema") is not None and heard and random.random() < 0.5:
            part["on_mismatch"] = random.choice(sorted(heard))
    return make_bundle(*agents, swarms=swarms, pipeline_desc=random.choice(["", "Tea & <b>"]))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_official_parser_has_no_objection() -> None:
    samples = sorted((ROOT / "memrelay/pipelines").rglob("*.json"))
    bundles: Json = {one.name: json.loads(one.read_text()) for one in samples}
    bundles = {name: one for name, one in bundles.items() if "agents" in one}
    random = Random(47)
    bundles |= {f"generated {number}": make_random_bundle(random) for number in range(200)}
    documents = {
        name: make_document(
            check(bundle, uid=UID).accepted(),
            random.choice(["", "unix:", "redis://a:b@c:1/0", "cluster://a:1,b:2"]),
            random.choice(["", "http://127.0.0.1:8765", "https://x.example/base"]),
        )
        for name, bundle in bundles.items()
    }

    assert len(documents) > 205
    assert run_parser(documents) == []


@pytest.mark.slow
def test_the_official_parser_notices_a_fault() -> None:
    document = document_of(make_chat())
    document["operations"]["user-send"]["messages"] = [{"$ref": "#/channels/none"}]

    assert run_parser({"broken": document}) != []


def run_parser(documents: Json) -> list[str]:
    """Return the errors, warnings and hints of @asyncapi/parser."""
    ended = subprocess.run(
        [NODE, str(PARSER)],
        input=json.dumps(documents),
        env={**os.environ, "NPM_PACKAGES": str(npm_packages())},
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
    )
    found: list[str] = json.loads(ended.stdout)
    return found
