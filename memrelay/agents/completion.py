"""One answer of a model: the executor of the blocks `extract` and `summarize`.

A fault is a result too, because the block decides when to ask again.
"""

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from memrelay.agents.model import (
    ChatModel,
    ModelFault,
    ModelOptions,
    RequestNotSent,
    RequestRejected,
)
from memrelay.agents.response import join_text
from memrelay.blocks.contract import RunningCall
from memrelay.guarded_http.client import GuardedClient

Json = dict[str, Any]
# Bytes of an answer. A list of facts, or a summary, has far less.
MAX_ANSWER = 256 << 10
CHARACTERS_PER_TOKEN = 4  # for services that report no tokens


async def complete(request: Mapping[str, Any], deferred_call: RunningCall) -> Json:
    """Return `text` and `tokens`, or `error` and whether the service rejects this request alone.
    `was_sent` is False if it got no request.

    `request` has `messages`, the options of the model, and `deadline_s`, the seconds for all
    attempts. Its `turns` are returned too, so that an erasure of one finds the result.
    """
    try:
        async with asyncio.timeout(request["deadline_s"]):
            answer = await _ask(request, deferred_call)
    except TimeoutError:
        host, seconds = _find_host(request), request["deadline_s"]
        answer = {"error": f"{host} does not answer within {seconds} s", "is_rejected": False}
    except RequestRejected as fault:
        answer = {"error": str(fault), "is_rejected": True}
    except RequestNotSent as fault:
        answer = {"error": str(fault), "is_rejected": False, "was_sent": False}
    except ModelFault as fault:
        answer = {"error": str(fault), "is_rejected": False}
    return answer | {"turns": request["turns"], "ended_at_ms": time.time_ns() // 1_000_000}


async def _ask(request: Mapping[str, Any], deferred_call: RunningCall) -> Json:
    """Return the text of the answer and its tokens. Raises ModelFault."""
    open_client = partial(GuardedClient, deferred_call.outgoing, "models", deferred_call.pipeline)
    options = ModelOptions(
        request["url"],
        request["model"],
        request["temperature"],
        request["max_tokens"],
        request["wants_json"],
        MAX_ANSWER,
    )
    key = read_key(request["api_key"], request["url"], deferred_call)
    client = await deferred_call.share(f"agents.client/{deferred_call.pipeline}", open_client)
    model, messages = ChatModel(client, options, key), request["messages"]
    response = await model.ask(messages, request_id=deferred_call.id)
    text = join_text(response["content"])
    sent = sum(len(message["content"]) for message in messages)
    return {"text": text, "tokens": model.tokens or (sent + len(text)) // CHARACTERS_PER_TOKEN}


def read_key(reference: str, url: str, deferred_call: RunningCall) -> str:
    """Return the API key at a reference, "" for none. Raises ModelFault."""
    try:
        if deferred_call.outgoing.binds(reference):
            return deferred_call.secret_for(reference, urlsplit(url).hostname or "")
        return deferred_call.secret(reference) if reference else ""
    except LookupError as error:
        raise RequestNotSent(f"api_key cannot be read: {error.args[0]}") from error


def _find_host(request: Mapping[str, Any]) -> str:
    return urlsplit(request["url"]).hostname or "the model"
