"""The entries of a webhook, as the web server makes them. Loaded with the first webhook."""

from typing import Any

import orjson

from memrelay.bus.streams.entry import NewEntry
from memrelay.bus.streams.via import Via
from memrelay.pipelines.checked import CheckedAgent
from memrelay.web.server.options import WebOptions
from memrelay.web.webhooks.body import read_webhook_body
from memrelay.web.webhooks.envelopes import Webhook, make_envelopes
from memrelay.web.webhooks.request import compile_cached

JSON = "application/json"


def make_entries(
    uid: str, agent: CheckedAgent, body: Any, now_ms: int, *, content_type: str, event: str
) -> list[NewEntry]:
    """Return the entries of a request whose signature is valid.

    `body` is a text, bytes, or any JSON value.
    """
    options, sender = WebOptions(), agent.sender
    if isinstance(body, str):
        body = body.encode()
    elif not isinstance(body, bytes):
        body, content_type = orjson.dumps(body), JSON
    metadata: dict[str, Any] = {}
    text, profile = None, "webhook"
    form_field = ""
    if sender is not None:
        metadata = {"event": event, "sender": sender.name, "delivery_id": "", "headers": {}}
        metadata["verified"] = True
        profile, form_field = f"webhook:{sender.name}", sender.form_field
        takes_text = agent.is_publisher or agent.args.selector is not None
        text = compile_cached(sender.text) if sender.text and takes_text else None
    read = read_webhook_body(body, content_type, options, form_field)
    webhook = Webhook(read, now_ms, metadata, text)
    via = Via(profile, "verified")
    return [
        NewEntry(uid, data, agent=agent.agent.alias, via=via)
        for data in make_envelopes(agent, webhook, options)
    ]
