"""500 bodies of about 30 senders: none is refused, changed or lost, and a search finds them."""

import base64
import gzip
import json
from typing import Any

import pytest

from memrelay.bus.codec import decode
from memrelay.web.server.options import WebOptions
from memrelay.web.webhooks.body import read_webhook_body
from memrelay.web.webhooks.envelopes import Webhook, make_envelopes
from tests.support.waiting import wait_for
from tests.support.web_system import WebSystem
from tests.support.webhook_bodies import SentBody, make_bodies
from tests.web.test_webhook_messages import WRITER
from tests.web.test_webhooks import make_hook

SEED = 45
SENDERS = 29
MOST = 1 << 20
OPTIONS = WebOptions(message_bytes=MOST)


def parse_exactly(text: str) -> Any:
    """Return JSON with its duplicate keys, and numbers as they are written."""
    return json.loads(text, object_pairs_hook=list, parse_int=str, parse_float=str)


def is_unchanged(sent: SentBody, text: str) -> bool:
    raw = gzip.decompress(sent.raw) if sent.encoding else sent.raw
    if sent.value is not None:
        return bool(json.loads(text) == sent.value)
    if sent.sender == "binary":
        return base64.b64decode(text) == raw
    charset = "latin-1" if sent.sender == "latin" else sent.charset
    given = raw.decode(charset).strip()
    if sent.sender in ("text", "latin", "broken", "empty"):
        return text == given
    return bool(parse_exactly(text) == parse_exactly(given)) and "\\/" not in text


@pytest.mark.parametrize("count", [SENDERS, pytest.param(500, marks=pytest.mark.slow)])
def test_no_body_of_a_sender_is_refused_or_changed(count: int) -> None:
    senders = set()
    for sent in make_bodies(SEED, count):
        raw = gzip.decompress(sent.raw) if sent.encoding else sent.raw
        body = read_webhook_body(raw, sent.content_type, OPTIONS)
        (envelope,) = make_envelopes(WRITER, Webhook(body, 1), OPTIONS)
        text = decode(envelope, MOST).text
        assert is_unchanged(sent, text), (sent.sender, text[:200])
        assert all(word in text for word in sent.words), (sent.sender, text[:200])
        senders.add(sent.sender)
    assert len(senders) == SENDERS


def send_all(web_system: WebSystem, count: int) -> tuple[str, list[SentBody]]:
    """Post bodies, and return the pipeline with those that have a text, when they are stored."""
    uid = web_system.deploy(make_hook("", wf_webhook_bytes=3 * MOST))
    bodies = list(make_bodies(SEED, count))
    for sent in bodies:
        headers = {"Content_Type": sent.content_type}
        headers |= {"Content_Encoding": sent.encoding} if sent.encoding else {}
        answer = web_system.webhook(uid, "memory_write_", sent.raw, **headers)
        assert answer.status == 202, (sent.sender, answer)
    stored = [sent for sent in bodies if sent.sender != "empty"]
    wait_for(lambda: len(web_system.system.contents(uid)) == len(stored), "all bodies")
    return uid, stored


def check_stored(web_system: WebSystem, count: int, words_of_each: int) -> None:
    uid, stored = send_all(web_system, count)
    contents = web_system.system.contents(uid)
    for sent, content in zip(stored, contents, strict=True):
        assert is_unchanged(sent, content), (sent.sender, content[:200])
        for word in sent.words[-words_of_each:]:
            found = web_system.post(
                f"/v1/pipelines/{uid}/records/search",
                {"query": word, "limit": 1, "mode": "fts"},
                Content_Type="application/json",
            )
            assert found.status == 200, found
            assert found.json["items"], (sent.sender, word, content[:300])
            (hit,) = found.json["items"]
            assert hit["record"]["content"] == content, (sent.sender, word)


def test_a_search_finds_the_body_of_each_sender(web_system: WebSystem) -> None:
    check_stored(web_system, SENDERS, words_of_each=1)


@pytest.mark.slow
def test_a_search_finds_every_word_of_500_bodies(web_system: WebSystem) -> None:
    check_stored(web_system, 500, words_of_each=100)
