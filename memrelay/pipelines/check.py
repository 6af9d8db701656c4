"""The check of a bundle: it reports every fault at once, or returns what a worker runs."""

import hashlib
from typing import Any, NamedTuple, TypeVar

import orjson
from pydantic import ValidationError

from memrelay.memory.engine.time_zones import DEFAULT_ZONE
from memrelay.pipelines.agents import check_agent
from memrelay.pipelines.bundle import (
    AgentSpec,
    Bundle,
    DeclaredEndpoint,
    Part,
    StoreSpec,
    SwarmSpec,
)
from memrelay.pipelines.checked import Checked, CheckedAgent, CheckedBundle
from memrelay.pipelines.endpoints import check_endpoint_references, check_endpoints
from memrelay.pipelines.json_text import fits, parse_bundle
from memrelay.pipelines.message_checks import check_mismatches, check_swarm_schemas
from memrelay.pipelines.policies import check_policies
from memrelay.pipelines.report import JsonPath, Report, did_you_mean, quoted
from memrelay.pipelines.request_targets import check_targets
from memrelay.pipelines.rules import report_validation_error
from memrelay.pipelines.secret_references import (
    SecretResolver,
    check_block_references,
    check_references,
)
from memrelay.pipelines.substitution import choose_uid, fill
from memrelay.pipelines.views import check_views
from memrelay.pipelines.webhook_checks import check_public_url
from memrelay.pipelines.wiring import (
    check_aliases,
    check_display_order,
    check_self_answers,
    check_senders,
    check_stores,
    check_swarms,
)

__all__ = ["Checked", "CheckedAgent", "CheckedBundle", "check"]


def check(
    raw: bytes | dict[str, Any],
    *,
    uid: str | None = None,
    secrets: SecretResolver | None = None,
    timezone: str = DEFAULT_ZONE,
    public_url: str | None = None,
) -> Checked:
    """Check a bundle and return its faults and warnings, or the checked bundle.

    `uid` takes precedence over the bundle's. Without both, a UID is generated. A deploy passes
    `secrets`, which also checks the files of references, the `timezone` of a bundle that names
    none, and the setting `web.public_url`, which some senders of webhooks need.
    """
    report = Report()
    value = parse_bundle(raw, report)
    if value is not None and timezone != DEFAULT_ZONE and not value.get("timezone"):
        value = value | {"timezone": timezone}
    bundle = None if value is None else _check_object(value, uid, report, secrets, public_url)
    return Checked(report.errors, report.warnings, None if report.errors else bundle)


def _check_object(
    value: dict[str, Any],
    given_uid: str | None,
    report: Report,
    secrets: SecretResolver | None,
    public_url: str | None,
) -> CheckedBundle:
    uid = choose_uid(given_uid, value, report)
    filled = fill(value | {"pipeline_uid": uid}, uid, report)
    bundle, agents, swarms, stores, endpoints = read_bundle(filled, report)
    checked = [check_agent(spec, ("agents", at), uid, report) for at, spec in agents.items()]
    check_aliases(agents, report)
    check_swarms(swarms, agents, report)
    public = tuple(swarm.name for swarm in swarms.values() if swarm.visibility == "public")
    check_senders(agents, public, report)
    check_self_answers(agents, report)
    message_checks = check_swarm_schemas(swarms, report)
    check_mismatches(swarms, agents, report)
    valid = [agent for agent in checked if agent is not None]
    languages = check_stores(stores, [agent.args.store for agent in valid], report)
    check_policies(stores, [agent.args.store for agent in valid], report)
    check_views(stores, report)
    check_display_order(bundle.display_order, agents, report)
    check_endpoints(endpoints, report)
    _check_inputs_days(bundle.inputs_days, report)
    # The keys stay in the order of the author; the hash does not depend on it.
    source = orjson.dumps(filled)
    fits(source, report)
    if secrets is not None:
        check_endpoint_references(endpoints, uid, secrets, report)
        check_block_references(dict(zip(agents, checked, strict=True)), secrets, report)
        check_references(agents, secrets, report)
        check_targets(dict(zip(agents, checked, strict=True)), secrets.outgoing, report)
    if public_url is not None:
        check_public_url(dict(zip(agents, checked, strict=True)), public_url, report)
    zone = bundle.timezone or DEFAULT_ZONE
    programs = frozenset(one.agent.username for one in valid if not one.is_publisher)
    return CheckedBundle(
        uid=uid,
        name=bundle.pipeline_name,
        description=bundle.pipeline_desc,
        hash=hashlib.sha256(orjson.dumps(filled, option=orjson.OPT_SORT_KEYS)).hexdigest(),
        source=source,
        agents=tuple(one.in_bundle(languages, zone, programs) for one in valid),
        public=public,
        languages=languages,
        feeds=frozenset(store.memory_id for store in stores.values() if store.changes),
        embedded=frozenset(store.memory_id for store in stores.values() if store.vectors),
        policies={one.memory_id: one.policies for one in stores.values() if one.policies},
        views={one.memory_id: one.views for one in stores.values() if one.views},
        timezone=zone,
        inputs_days=bundle.inputs_days,
        golden_questions=bundle.golden_questions,
        receipts_days=bundle.receipts_days,
        only_digests=bundle.receipts_question == "digest",
        review_days=bundle.review_days,
        message_checks=message_checks,
        endpoints=tuple(endpoints.values()),
    )


def _check_inputs_days(days: float, report: Report) -> None:
    """Warn of what kept inputs cost besides their own bytes."""
    if days > PRODUCER_ID_DAYS:
        report.warn(
            ("inputs_days",),
            f"the idempotency keys of the pipeline are kept for {days + 1:g} days too, which takes "
            "about 130 bytes for each message with a key",
            f"use {PRODUCER_ID_DAYS} days or less to keep them no longer than by default",
        )


# The default of the setting worker.producer_id_days.
PRODUCER_ID_DAYS = 4
# An unknown key this similar to a known one is a misspelling, not a key of another program.
NEAR = 0.8
MAX_ENTRIES = 1000  # of a list

SomePart = TypeVar("SomePart", bound=Part)


class BundleParts(NamedTuple):
    """A bundle without its lists, and the objects of these lists by index."""

    bundle: Bundle
    agents: dict[int, AgentSpec]
    swarms: dict[int, SwarmSpec]
    stores: dict[int, StoreSpec]
    endpoints: dict[int, DeclaredEndpoint]


def read_bundle(value: dict[str, Any], report: Report) -> BundleParts:
    """Return the bundle and its parts, read key by key, so that an invalid key hides no other."""
    lists = ("agents", "swarms", "stores", "endpoints")
    head = {key: inner for key, inner in value.items() if key not in lists}
    check_keys(value, Bundle, (), report)
    if value.get("agents") is None:
        report.error(("agents",), "a bundle needs agents", "add a list of them")
    return BundleParts(
        read_part(Bundle, head, (), report),
        read_parts(AgentSpec, value.get("agents"), ("agents",), report),
        read_parts(SwarmSpec, value.get("swarms"), ("swarms",), report),
        read_parts(StoreSpec, value.get("stores"), ("stores",), report),
        read_parts(DeclaredEndpoint, value.get("endpoints"), ("endpoints",), report),
    )


def check_keys(value: dict[str, Any], part: type[Part], path: JsonPath, report: Report) -> None:
    """Report unknown keys with a reserved prefix, or with a name close to a known key.

    Other unknown keys are kept.
    """
    known = part.keys()
    for key in value.keys() - known:
        if report.full("error"):
            break
        is_reserved = key.startswith(part.prefixes)
        suggestion = did_you_mean(key, known) if is_reserved else did_you_mean(key, known, NEAR)
        if is_reserved or suggestion:
            report.error((*path, key), f"unknown key {quoted(key)}", suggestion)


def read_parts(
    part: type[SomePart], value: object, path: JsonPath, report: Report
) -> dict[int, SomePart]:
    """Return the objects of a list by index. Other items are reported."""
    if value is not None and not isinstance(value, list):
        report.error(path, "must be a list of objects")
        return {}
    parts = {}
    for at, item in enumerate(value or ()):
        if at == MAX_ENTRIES:
            rule = f"has at most {MAX_ENTRIES} entries"
            report.error(path, rule, "split it into several pipelines")
            break
        if isinstance(item, dict):
            check_keys(item, part, (*path, at), report)
            parts[at] = read_part(part, item, (*path, at), report)
        else:
            report.error((*path, at), "must be an object")
    return parts


def read_part(
    part: type[SomePart], value: dict[str, Any], path: JsonPath, report: Report
) -> SomePart:
    """Return the object as a model. An invalid key is reported and gets its default."""
    try:
        return part.model_validate(value)
    except ValidationError as error:
        report_validation_error(error, value, path, report)
        invalid = {detail["loc"][0] for detail in error.errors()}
        valid = {key: inner for key, inner in value.items() if key not in invalid}
        return part.model_validate(valid)
