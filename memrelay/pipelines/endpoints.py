"""The checks of `endpoints` in a bundle: their names, and the places of their secrets."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from memrelay.memory.endpoint_rules import MOST_ENDPOINTS, check_template, find_format_fault
from memrelay.pipelines.agents import fits_with_other_templates
from memrelay.pipelines.bundle import ENDPOINT_NAME, SECRET, DeclaredEndpoint
from memrelay.pipelines.report import Report, quoted
from memrelay.pipelines.secret_references import report_unbound

if TYPE_CHECKING:
    from memrelay.pipelines.secret_references import SecretResolver

NAME = re.compile(ENDPOINT_NAME)
# Endpoints that an operation creates have ids with it, and those of a bundle have their names.
RESERVED_PREFIX = "ep_"
# The deliveries of two secrets verify with either one, while a receiver changes from one to the
# other.
MOST_SECRETS = 2


def check_endpoints(endpoints: Mapping[int, DeclaredEndpoint], report: Report) -> None:
    """Report names and URLs that are missing or invalid, and secrets in the bundle."""
    first: dict[str, int] = {}
    for at, endpoint in endpoints.items():
        path = ("endpoints", at)
        if at == MOST_ENDPOINTS:
            rule = f"a pipeline has at most {MOST_ENDPOINTS} endpoints"
            report.error(("endpoints",), rule, "remove some of them")
            break
        if not NAME.fullmatch(endpoint.name) or endpoint.name.startswith(RESERVED_PREFIX):
            rule = "a name has 1 to 50 letters, digits, `.`, `_` and `-`, and does not begin with \
`.` or `ep_`"
            report.error((*path, "name"), rule)
        elif endpoint.name in first:
            rule = f"endpoints[{first[endpoint.name]}] already has the name {quoted(endpoint.name)}"
            report.error((*path, "name"), rule, "choose another")
        first.setdefault(endpoint.name, at)
        if not endpoint.url:
            report.error((*path, "url"), "an endpoint needs a URL", "set https://... or env:NAME")
        _check_template(endpoint, at, report)
        _check_secrets(endpoint, at, report)


def _check_template(endpoint: DeclaredEndpoint, at: int, report: Report) -> None:
    path = ("endpoints", at, "template")
    if fault := find_format_fault(endpoint.format, endpoint.template):
        report.error(("endpoints", at, "format"), fault)
    if endpoint.template and fits_with_other_templates(endpoint.template, path, report):
        try:
            check_template(endpoint.template)
        except ValueError as error:
            report.error(path, str(error))


def _check_secrets(endpoint: DeclaredEndpoint, at: int, report: Report) -> None:
    path = ("endpoints", at, "secret")
    if not all(SECRET.fullmatch(one) for one in endpoint.secrets):
        rule = "a bundle must not contain a secret, only its place"
        report.error(path, rule, "write env:NAME or file:NAME, or leave it out to have one made")
    if len(endpoint.secrets) > MOST_SECRETS:
        rule = f"an endpoint has at most {MOST_SECRETS} secrets"
        report.error(path, rule, "list the new one and the old one")


def check_endpoint_references(
    endpoints: Mapping[int, DeclaredEndpoint], uid: str, secrets: "SecretResolver", report: Report
) -> None:
    """Report references that the operator has not bound to the host of the endpoint."""
    for at, endpoint in endpoints.items():
        for key, reference in endpoint.references:
            if not secrets.may_send(reference, endpoint.host, uid):
                report_unbound(("endpoints", at, key), reference, endpoint.host, report)
