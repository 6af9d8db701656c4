"""The check of a bundle: it reports every fault at once, or returns what a worker runs."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from memrelay.pipelines.agents import check_agent
from memrelay.pipelines.checked import Checked, CheckedAgent, CheckedBundle
from memrelay.pipelines.json_text import fits, parse_bundle
from memrelay.pipelines.report import Report
from memrelay.pipelines.secret_references import (
    SecretResolver,
    check_block_references,
    check_references,
)
from memrelay.pipelines.shape import read_bundle
from memrelay.pipelines.substitution import choose_uid, fill
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
    raw: bytes | dict[str, Any], *, uid: str | None = None, secrets: SecretResolver | None = None
) -> Checked:
    """Check a bundle and return its faults and warnings, or the checked bundle.

    `uid` takes precedence over the bundle's. Without both, a UID is generated. A deploy passes
    `secrets`, which also checks the files of references.
    """
    report = Report()
    value = parse_bundle(raw, report)
    bundle = None if value is None else _check_object(value, uid, report, secrets)
    return Checked(report.errors, report.warnings, None if report.errors else bundle)


def _check_object(
    value: dict[str, Any], given_uid: str | None, report: Report, secrets: SecretResolver | None
) -> CheckedBundle:
    uid = choose_uid(given_uid, value, report)
    filled = fill(value | {"pipeline_uid": uid}, uid, report)
    bundle, agents, swarms, stores = read_bundle(filled, report)
    checked = [check_agent(spec, ("agents", at), uid, report) for at, spec in agents.items()]
    check_aliases(agents, report)
    check_swarms(swarms, agents, report)
    public = tuple(swarm.name for swarm in swarms.values() if swarm.visibility == "public")
    check_senders(agents, public, report)
    check_self_answers(agents, report)
    languages = check_stores(
        stores, [agent.args.store for agent in checked if agent is not None], report
    )
    check_display_order(bundle.display_order, agents, report)
    source = orjson.dumps(filled, option=orjson.OPT_SORT_KEYS)
    fits(source, report)
    if secrets is not None:
        check_block_references(dict(zip(agents, checked, strict=True)), secrets, report)
        check_references(agents, secrets, report)
    return CheckedBundle(
        uid=uid,
        name=bundle.pipeline_name,
        description=bundle.pipeline_desc,
        hash=hashlib.sha256(source).hexdigest(),
        source=source,
        agents=_together([agent for agent in checked if agent is not None], languages),
        public=public,
        languages=languages,
        feeds=frozenset(store.memory_id for store in stores.values() if store.changes),
        embedded=frozenset(store.memory_id for store in stores.values() if store.vectors),
    )


def _together(
    agents: Sequence[CheckedAgent], languages: Mapping[str, str]
) -> tuple[CheckedAgent, ...]:
    """Return the agents with what they know of each other and of the bundle."""
    programs = frozenset(one.agent.username for one in agents if not one.is_publisher)
    return tuple(one.in_language(languages).among(programs) for one in agents)
