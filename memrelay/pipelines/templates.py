"""Templates for new pipelines: samples of this package, with URLs to fill in for their secrets."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import orjson

FOLDER = Path(__file__).resolve().parent
# No host of the domain example exists (RFC 2606), so nothing leaves before the URL is filled in.
SLACK_URL = "https://hooks.slack.example/services/YOUR/INCOMING/WEBHOOK"
ANY_URL = "https://receiver.example/your-webhook"


class PipelineTemplate(NamedTuple):
    """A template. `title` is its name for people, and `summary` one sentence about it.

    `sample` is the file in this folder. `urls` has what replaces references to secrets: URLs that
    an author fills in, because a secret needs the settings of the server.
    """

    name: str
    title: str
    summary: str
    sample: str
    urls: Mapping[str, str] = MappingProxyType({})

    @property
    def bundle(self) -> dict[str, Any]:
        """Return the bundle."""
        text = (FOLDER / f"{self.sample}.json").read_text(encoding="utf-8")
        for reference, url in self.urls.items():
            text = text.replace(f'"{reference}"', f'"{url}"')
        bundle: dict[str, Any] = orjson.loads(text)
        return bundle | {"pipeline_desc": self.summary} if self.urls else bundle


TEMPLATES = (
    PipelineTemplate(
        "chat_memory",
        "Chat memory",
        "Remembers each message of a chat as a turn; /recall QUESTION finds it again.",
        "conversation",
    ),
    PipelineTemplate(
        "webhook_inbox",
        "Webhook inbox",
        "Keeps each webhook that arrives as a record; /inbox lists them and /find searches them.",
        "webhook_inbox",
    ),
    PipelineTemplate(
        "github_to_slack",
        "GitHub to Slack",
        "Keeps new issues of GitHub in a memory, and posts each to a channel of Slack or to "
        "another URL.",
        "webhooks/github_to_slack",
        {"env:SLACK_URL": SLACK_URL},
    ),
    PipelineTemplate(
        "daily_digest",
        "Daily digest",
        "Keeps notes, and posts those of the day before to a URL each morning at nine.",
        "daily_digest",
        {"env:DIGEST_URL": ANY_URL},
    ),
    PipelineTemplate(
        "agent_with_memory",
        "Agent with memory",
        "Answers with a model that remembers the conversation and facts about each user.",
        "assistant",
    ),
    PipelineTemplate(
        "alert_dedupe",
        "Alert dedupe",
        "Posts one line for a burst of the same alert to a URL, and keeps the state of each alert.",
        "webhooks/alert_dedupe",
        {"env:ONCALL_URL": ANY_URL},
    ),
    PipelineTemplate(
        "shared_notes",
        "Shared notes",
        "Keeps notes in a store that several pipelines read and write: /note, /notes and /find.",
        "shared_notes",
    ),
    PipelineTemplate("empty", "Empty", "A chat without blocks, to begin with.", "empty"),
)
