"""Finds requests of blocks that the rules for outgoing requests will refuse, or that go nowhere."""

from collections.abc import Mapping
from urllib.parse import urlsplit

from memrelay.blocks.request_args import RequestArgs
from memrelay.guarded_http.rules import Guard, OutgoingRefused, OutgoingRules
from memrelay.pipelines.checked import CheckedAgent
from memrelay.pipelines.report import Report

# No host of this domain exists (RFC 2606).
EXAMPLE_DOMAIN = ".example"


def find_refusal(agent: CheckedAgent, rules: OutgoingRules) -> OutgoingRefused | None:
    """Return why the rules refuse each request of an agent, as far as the text of its URL tells."""
    args = agent.args
    if not isinstance(args, RequestArgs) or args.url_template is None:
        return None
    try:
        Guard(rules, "http", agent.agent.pipeline).check_url(args.url)
    except OutgoingRefused as refusal:
        return refusal
    return None


def check_targets(
    agents: Mapping[int, CheckedAgent | None], rules: OutgoingRules, report: Report
) -> None:
    """Warn about URLs that will be refused, and about examples that were not replaced."""
    for at, agent in agents.items():
        path = ("agents", at, "wf_webhook_args", "url")
        refusal = None if agent is None else find_refusal(agent, rules)
        if refusal is not None:
            report.warn(path, f"its requests will be refused: {refusal}", refusal.example)
        elif agent is not None and _asks_example(agent):
            rule = "its requests fail: the host is an example, and does not exist"
            report.warn(path, rule, "the URL of your receiver")


def _asks_example(agent: CheckedAgent) -> bool:
    """Return whether the URL of an agent's requests has an example as its host."""
    args = agent.args
    if not isinstance(args, RequestArgs) or args.url_template is None:
        return False
    try:
        return (urlsplit(args.url).hostname or "").endswith(EXAMPLE_DOMAIN)
    except ValueError:
        return False
