"""Finds requests of blocks that the rules for outgoing requests will refuse."""

from collections.abc import Mapping

from memrelay.blocks.request_args import RequestArgs
from memrelay.guarded_http.rules import Guard, OutgoingRefused, OutgoingRules
from memrelay.pipelines.checked import CheckedAgent
from memrelay.pipelines.report import Report


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
    """Warn about URLs that will be refused."""
    for at, agent in agents.items():
        refusal = None if agent is None else find_refusal(agent, rules)
        if refusal is not None:
            path = ("agents", at, "wf_webhook_args", "url")
            report.warn(path, f"its requests will be refused: {refusal}", refusal.example)
