"""The checks of an agent's webhook: its sender, and the credentials that this sender needs."""

import importlib.util
from collections.abc import Mapping
from typing import TYPE_CHECKING

from memrelay.installation import install_extra
from memrelay.pipelines.report import JsonPath, Report, quoted
from memrelay.pipelines.webhook_senders import CUSTOM, SENDERS, Sender, SenderSpec, make_sender

if TYPE_CHECKING:
    from memrelay.pipelines.bundle import AgentSpec
    from memrelay.pipelines.checked import CheckedAgent

# Senders that often have no signature, so that their networks may be the only credential.
UNSIGNED = (CUSTOM, "cloudevents", "grafana")


def check_sender(spec: "AgentSpec", path: JsonPath, report: Report) -> Sender | None:
    """Return the sender of an agent's webhooks, or None for the default, after reporting faults."""
    given = spec.wf_webhook_sender
    if not given:
        _check_without_sender(spec, path, report)
        return None
    at = (*path, "wf_webhook_sender")
    profile = given.profile if isinstance(given, SenderSpec) else given
    if profile and profile not in SENDERS:
        place = (*at, "profile") if isinstance(given, SenderSpec) else at
        report.unknown(place, f"unknown sender {quoted(profile)}", profile, SENDERS)
        return None
    sender = make_sender(given)
    _check_credentials(sender, spec, at, report)
    _check_special(sender, spec, path, report)
    return sender


def _check_credentials(sender: Sender, spec: "AgentSpec", at: JsonPath, report: Report) -> None:
    """Report a webhook that would accept no caller, or every caller."""
    if spec.secrets or spec.wf_webhook_token:
        if sender.name == "token" and not spec.wf_webhook_token:
            report.error(at, "the sender token needs a token", "set wf_webhook_token")
        return
    if sender.special == "sns" or (sender.name == CUSTOM and sender.signature is None):
        return
    if spec.wf_webhook_networks and sender.name in UNSIGNED:
        return
    needs = "a token" if sender.name == "token" else "a secret"
    remedy = (
        "set wf_webhook_token"
        if sender.name == "token"
        else (
            "set wf_webhook_secret to the place of the secret that signs its webhooks, or "
            "wf_webhook_token for a token in the path"
        )
    )
    report.error(at, f"the sender {sender.name} needs {needs}", remedy)


def _check_special(sender: Sender, spec: "AgentSpec", path: JsonPath, report: Report) -> None:
    at = (*path, "wf_webhook_sender")
    if sender.special == "sns" and not sender.topics:
        rule = "the sender sns needs topics, because every AWS account can sign for its own"
        remedy = 'write {"profile": "sns", "topics": ["arn:aws:sns:..."]}'
        report.error(at, rule, remedy)
    if sender.special != "sns" and (sender.topics or sender.confirm):
        report.error(at, "`topics` and `confirm` belong to the sender sns", "remove them")
    if spec.wf_webhook_verify and sender.handshake != "meta":
        rule = "only the sender meta has a verify token"
        report.error((*path, "wf_webhook_verify"), rule, "remove it, or set the sender meta")
    if sender.needs_cryptography and importlib.util.find_spec("cryptography") is None:
        report.error(at, f"the sender {sender.name} needs cryptography", install_extra("webhooks"))
    _check_answer(sender, spec, path, report)


def _check_answer(sender: Sender | None, spec: "AgentSpec", path: JsonPath, report: Report) -> None:
    answer = spec.wf_webhook_answer
    most_s = sender.longest_wait_s if sender is not None else 0.0
    if answer is not None and most_s and answer.wait_s > most_s:
        rule = f"the sender {sender.name if sender else ''} waits at most {most_s:g} s"
        report.error((*path, "wf_webhook_answer", "wait_s"), rule, f"set {most_s:g} or less")


def _check_without_sender(spec: "AgentSpec", path: JsonPath, report: Report) -> None:
    if spec.wf_webhook_verify:
        rule = "only the sender meta has a verify token"
        report.error((*path, "wf_webhook_verify"), rule, 'set "wf_webhook_sender": "meta"')


def check_public_url(
    agents: Mapping[int, "CheckedAgent | None"], public_url: str, report: Report
) -> None:
    """Report senders that sign the URL, if the settings lack it."""
    if public_url:
        return
    for at, agent in agents.items():
        if agent is not None and agent.sender is not None and agent.sender.needs_url:
            report.error(
                ("agents", at, "wf_webhook_sender"),
                f"{agent.sender.name} signs the URL of the webhook, which the settings lack",
                "set web.public_url to the URL of this server as its senders see it",
            )
