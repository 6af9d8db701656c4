"""The AsyncAPI 3.1 document of a pipeline: its channels on the bus, its webhooks and its agents."""

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import quote, urlsplit

from memrelay.blocks.reference import describe
from memrelay.bus.keys import ask_channel, input_key, reply_channel, swarm_key
from memrelay.bus.message import JSON
from memrelay.pipelines.check import CheckedAgent, CheckedBundle
from memrelay.pipelines.message_checks import MessageCheck

Json = dict[str, Any]

VERSION = "3.1.0"
BUS, WEB = "bus", "web"
TAG = re.compile(r"\{[^{}]*\}")
NAME = re.compile(r"[^A-Za-z0-9_-]")
TEXT: Json = {"type": "string"}
PART: Json = {
    "type": "object",
    "properties": {
        "username": TEXT,
        "text": TEXT,
        "type": {"type": "string", "description": "Media type of the text."},
        "timestamp": {"type": ["number", "string", "null"], "description": "Unix ms."},
    },
}
ENVELOPE: Json = {
    "type": "object",
    "required": ["from", "args"],
    "properties": {
        "from": {"type": "string", "description": "Name of the sender."},
        "id": {"type": "string", "description": "Alias of the agent that began the exchange."},
        "args": {"type": "array", "minItems": 1, "items": PART},
        "mid": {"type": "string", "description": "Unique id of the message."},
    },
}
ENTRY: Json = {
    "type": "object",
    "description": "The fields of a stream entry. It needs `swarm`, `agent` or `op`.",
    "required": ["data"],
    "properties": {
        "swarm": {"type": "string", "description": "Swarm of the message."},
        "agent": {"type": "string", "description": "Alias of the only agent that gets it."},
        "op": {"type": "string", "description": "Name of an operation to call."},
        "data": {"type": "string", "description": "The envelope, or the input of `op`, as JSON."},
        "id": {"type": "string", "description": "Idempotency key."},
        "reply": {"type": "string", "description": "Channel for the report."},
    },
}
QUESTION: Json = {
    "type": "object",
    "description": "A call of an operation that only reads.",
    "required": ["op", "input", "reply"],
    "properties": {
        "op": {"type": "string", "description": "Name of the operation."},
        "input": {"type": "object"},
        "reply": {"type": "string", "description": "Channel for the answer."},
        "store": {"type": "string", "description": "`memory_id` of the store."},
        "within_ms": {"type": "integer", "minimum": 1},
    },
}
REPORT: Json = {
    "type": "object",
    "description": "The results of an input, or the `answer` of a call: `output` or `error`.",
    "properties": {
        "id": {"type": "string", "description": "Id of the input."},
        "settled": {"type": "boolean"},
        "answer": {"type": "object"},
    },
}
EVENT: Json = {
    "type": "object",
    "description": "An event in the format of Standard Webhooks, the default of endpoints.",
    "required": ["type", "timestamp", "data"],
    "properties": {
        "type": {"type": "string", "examples": ["record.created"]},
        "timestamp": {"type": "string", "format": "date-time"},
        "data": {"type": "object"},
    },
}


def make_document(bundle: CheckedBundle, bus_url: str, web_url: str) -> Json:
    """Return the AsyncAPI document of a pipeline.

    `bus_url` and `web_url` are the servers; "" leaves one out. A user and a password in them are
    left out too.
    """
    return _Document(bundle, {BUS: bus_url, WEB: web_url}).make()


@dataclass(slots=True)
class _Document:
    """A document while it is made. Channels, messages and schemas have unique names in it."""

    bundle: CheckedBundle
    urls: Mapping[str, str]
    channels: Json = field(default_factory=dict)
    operations: Json = field(default_factory=dict)
    messages: Json = field(default_factory=dict)
    schemas: Json = field(default_factory=lambda: {"envelope": ENVELOPE})
    swarms: dict[str, str] = field(default_factory=dict)  # their channels

    def make(self) -> Json:
        bundle = self.bundle
        self._add_input()
        self._add_endpoints()
        for swarm in bundle.swarms:
            self._add_swarm(swarm)
        for agent in bundle.agents:
            self._add_agent(agent)
        for swarm, check in bundle.message_checks.items():
            if swarm in self.swarms:
                self._add_mismatch(check, swarm)
        about = {"description": bundle.description} if bundle.description else {}
        return {
            "asyncapi": VERSION,
            "id": f"urn:memrelay:pipeline:{bundle.uid}",
            "info": {"title": bundle.name or bundle.uid, "version": bundle.hash[:12]} | about,
            "defaultContentType": JSON,
            "servers": {name: make_server(url) for name, url in self.urls.items() if url},
            "channels": self.channels,
            "operations": self.operations,
            "components": {"messages": self.messages, "schemas": self.schemas},
        }

    def _add_input(self) -> None:
        uid = self.bundle.uid
        reply = self._add_channel("reply", BUS, reply_channel(uid, "TOKEN"), {"report": REPORT})
        self.channels[reply]["address"] = "reply:{hash_tag}:{token}"
        self.channels[reply]["parameters"]["token"] = {
            "description": "A name that the caller makes up."
        }
        for name, address, schema in (
            ("input", input_key(uid), ENTRY),
            ("ask", ask_channel(uid), QUESTION),
        ):
            channel = self._add_channel(name, BUS, address, {name: schema})
            operation = self._add_operation(name, "receive", channel, [name])
            self.operations[operation]["reply"] = {
                "channel": {"$ref": f"#/channels/{reply}"},
                "messages": [{"$ref": f"#/channels/{reply}/messages/report"}],
            }

    def _add_endpoints(self) -> None:
        """Add the webhooks to other services. A bundle does not name their URLs."""
        channel = self._add_channel("endpoints", "", "", {"event": EVENT})
        self.channels[channel] |= {
            "address": None,
            "description": "The URLs of the endpoints of this pipeline.",
        }
        self._add_operation("endpoints", "send", channel, ["event"])

    def _add_swarm(self, swarm: str) -> None:
        """Add the channel of a swarm with a message for each block that publishes on it."""
        bundle, check = self.bundle, self.bundle.message_checks.get(swarm)
        payload: Json = {"$ref": "#/components/schemas/envelope"}
        if check is not None:
            payload = self._add_checked_envelope(check, swarm)
        blocks = {agent.block.name: agent.block for agent in _list_publishers(bundle, swarm)}
        messages = {
            name: {"summary": describe(block), "payload": payload} for name, block in blocks.items()
        }
        address = swarm_key(bundle.swarm_owner(swarm), swarm)
        self.swarms[swarm] = self._add_channel(
            f"swarm-{swarm}", BUS, address, {"message": payload} | messages
        )

    def _add_checked_envelope(self, check: MessageCheck, place: str) -> Json:
        """Return the schema of an envelope with a text that is JSON of this schema."""
        text = {"contentMediaType": JSON, "contentSchema": self._add_schema(check, place)}
        first = {"properties": {"text": text}}
        envelope = {"properties": {"args": {"items": [first], "additionalItems": PART}}}
        return {"allOf": [{"$ref": "#/components/schemas/envelope"}, envelope]}

    def _add_schema(self, check: MessageCheck, place: str) -> Json:
        name = _make_name(f"text-{place}", self.schemas)
        ref = f"#/components/schemas/{name}"
        self.schemas[name] = check.schema.embed(ref)
        return {"$ref": ref}

    def _add_agent(self, agent: CheckedAgent) -> None:
        alias, block = agent.agent.alias, agent.block.name
        if agent.rec_swarm:
            channel = self.swarms[agent.rec_swarm]
            self._add_operation(f"{alias}-receive", "receive", channel, [])
        if agent.agent.publishes and agent.send_swarm:
            channel = self.swarms[agent.send_swarm]
            self._add_operation(f"{alias}-send", "send", channel, [block])
        if agent.message_check is not None:
            self._add_mismatch(agent.message_check, alias)
        if agent.takes_messages:
            self._add_webhook(agent)

    def _add_mismatch(self, check: MessageCheck, place: str) -> None:
        if check.on_mismatch:
            channel = self.swarms[check.on_mismatch]
            self._add_operation(f"{place}-mismatch", "send", channel, ["message"])

    def _add_webhook(self, agent: CheckedAgent) -> None:
        alias, check = agent.agent.alias, agent.message_check
        payload: Json = {"description": "JSON of any kind, a form, or a text."}
        if check is not None and agent.text is None and agent.each is None:
            payload = self._add_schema(check, alias)
        path = f"/webhooks/{self.bundle.uid}/{quote(alias, safe='')}"
        channel = self._add_channel(f"webhook-{alias}", WEB, path, {"body": payload})
        name = self._add_operation(f"{alias}-webhook", "receive", channel, ["body"])
        self.operations[name]["bindings"] = {"http": {"method": "POST", "bindingVersion": "0.3.0"}}

    def _add_channel(
        self, name: str, server: str, address: str, messages: Mapping[str, Json]
    ) -> str:
        """Add a channel and return its name.

        A message is given by its payload, or by its fields. The braces of a key are not those of a
        parameter in AsyncAPI, so the hash tag is a parameter with one value.
        """
        name = _make_name(name, self.channels)
        channel: Json = {"address": address, "messages": {}}
        if tag := TAG.search(address):
            channel["address"] = address.replace(tag[0], "{hash_tag}")
            channel["parameters"] = {"hash_tag": {"enum": [tag[0]], "default": tag[0]}}
        if self.urls.get(server):
            channel["servers"] = [{"$ref": f"#/servers/{server}"}]
        for message, about in messages.items():
            key = _make_name(f"{name}-{message}", self.messages)
            fields = about if "payload" in about else {"payload": about}
            self.messages[key] = {"name": message, "contentType": JSON} | fields
            channel["messages"][message] = {"$ref": f"#/components/messages/{key}"}
        self.channels[name] = channel
        return name

    def _add_operation(self, name: str, action: str, channel: str, messages: Iterable[str]) -> str:
        """Add an operation with messages of its channel, all of them by default."""
        name = _make_name(name, self.operations)
        refs = [{"$ref": f"#/channels/{channel}/messages/{message}"} for message in messages]
        self.operations[name] = {"action": action, "channel": {"$ref": f"#/channels/{channel}"}}
        if refs:
            self.operations[name]["messages"] = refs
        return name


def make_server(url: str) -> Json:
    """Return the server of a URL without its user and password."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2].split(",")
    server: Json = {"host": hosts[0] or "localhost", "protocol": parts.scheme}
    if parts.scheme == "unix":
        server |= {"protocol": "redis", "description": "A Unix socket of this host."}
    elif len(hosts) > 1:
        server["description"] = f"One of {', '.join(hosts)}."
    if parts.scheme != "unix" and parts.path not in ("", "/"):
        server["pathname"] = parts.path
    return server


def _list_publishers(bundle: CheckedBundle, swarm: str) -> Iterator[CheckedAgent]:
    for agent in bundle.agents:
        if agent.agent.publishes and agent.send_swarm == swarm:
            yield agent


def _make_name(text: str, taken: Container[str]) -> str:
    """Return a name of letters, digits, hyphens and underscores that is not taken."""
    name = NAME.sub("_", text)
    if name not in taken:
        return name
    return next(other for number in count(2) if (other := f"{name}_{number}") not in taken)
