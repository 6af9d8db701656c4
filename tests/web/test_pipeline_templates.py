"""GET /v1/pipeline-templates: eight bundles to begin with."""

from typing import Any

import pytest

from tests.support.web_system import WebSystem

NAMES = [
    *("chat_memory", "webhook_inbox", "github_to_slack", "daily_digest", "agent_with_memory"),
    *("alert_dedupe", "shared_notes", "empty"),
]


@pytest.fixture(scope="module")
def templates(web_system: WebSystem) -> dict[str, Any]:
    return {one["name"]: one for one in web_system.get("/v1/pipeline-templates").json["items"]}


def check(web_system: WebSystem, bundle: Any) -> Any:
    return web_system.post("/v1/pipelines/never_deployed/check", bundle).json


def test_there_are_eight_with_a_title_and_a_sentence(templates: dict[str, Any]) -> None:
    assert list(templates) == NAMES
    for one in templates.values():
        assert one["title"] and one["summary"].endswith(".") and one["summary"].count(". ") == 0


@pytest.mark.parametrize("name", NAMES)
def test_a_template_can_be_deployed_without_settings(
    web_system: WebSystem, templates: dict[str, Any], name: str
) -> None:
    checked = check(web_system, templates[name]["bundle"])

    assert checked["valid"], checked["faults"]
    expected = (
        "the server has no environment variable",
        'names the store "shared/notes" shares it',
        "the host is an example, and does not exist",
    )
    assert all(any(part in one["rule"] for part in expected) for one in checked["faults"])


@pytest.mark.parametrize("name", NAMES)
def test_every_agent_of_a_template_is_described(templates: dict[str, Any], name: str) -> None:
    assert all(agent["agent_desc"] for agent in templates[name]["bundle"]["agents"])


def test_the_check_explains_the_missing_secret_of_github(
    web_system: WebSystem, templates: dict[str, Any]
) -> None:
    checked = check(web_system, templates["github_to_slack"]["bundle"])

    example, fault = checked["faults"]
    assert (fault["pointer"], fault["severity"]) == ("/agents/0/wf_webhook_secret", "warning")
    assert "GITHUB_SECRET, so each webhook to this agent is refused" in fault["rule"]
    assert example["pointer"] == "/agents/2/wf_webhook_args/url"
    assert "start the server again" in fault["suggestion"] and "file:NAME" in fault["suggestion"]


def test_only_a_url_has_to_be_filled_in(templates: dict[str, Any]) -> None:
    (slack,) = [
        agent
        for agent in templates["github_to_slack"]["bundle"]["agents"]
        if agent["agent_alias"] == "slack"
    ]

    assert slack["wf_webhook_args"]["url"].startswith("https://hooks.slack.example/")
