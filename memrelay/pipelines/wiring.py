"""The connections between the agents of a bundle: aliases, swarms, stores, senders."""

from collections.abc import Collection
from functools import cache, partial

from memrelay.bus.keys import SWARM
from memrelay.memory.engine.memory_id import built_in_name
from memrelay.pipelines.bundle import AI_CLASS, AgentSpec, StoreSpec, SwarmSpec
from memrelay.pipelines.report import JsonPath, Report, did_you_mean, quoted

# The block that lets a model answer.
AGENT_BLOCK = "agent"
CHARACTERS = "has 1 to 128 characters, no control characters and no braces"


def check_aliases(agents: dict[int, AgentSpec], report: Report) -> None:
    """Report missing, invalid and duplicate aliases."""
    first: dict[str, int] = {}
    for at, spec in agents.items():
        path, alias = ("agents", at, "agent_alias"), spec.agent_alias
        if not alias:
            report.error(path, "an agent needs an alias", "set agent_alias")
        elif not SWARM.fullmatch(alias):
            report.error(path, f"an alias {CHARACTERS}")
        elif alias in first:
            rule = f"agents[{first[alias]}] already has the alias {quoted(alias)}"
            report.error(path, rule, "choose another")
        first.setdefault(alias, at)


def check_display_order(
    order: tuple[str, ...], agents: dict[int, AgentSpec], report: Report
) -> None:
    """Warn about unknown aliases in `display_order`."""
    aliases = {spec.agent_alias for spec in agents.values()}
    for at, alias in enumerate(order):
        if alias not in aliases:
            rule = f"no agent has the alias {quoted(alias)}"
            report.warn(("display_order", at), rule, did_you_mean(alias, aliases))


def check_swarms(
    swarms: dict[int, SwarmSpec], agents: dict[int, AgentSpec], report: Report
) -> None:
    """Report invalid names and unsupported classes; warn about misspelled swarms."""
    for at, spec in agents.items():
        for key in ("agent_rec_swarm", "agent_send_swarm"):
            name: str = getattr(spec, key)
            if name and not SWARM.fullmatch(name):
                report.error(("agents", at, key), f"a swarm's name {CHARACTERS}")
    declared: set[str] = set()
    for at, swarm in swarms.items():
        _check_swarm(swarm, ("swarms", at), declared, report)
        declared.add(swarm.name)
    _check_unused_swarms(swarms, agents, report)


def _check_swarm(swarm: SwarmSpec, path: JsonPath, declared: set[str], report: Report) -> None:
    if not SWARM.fullmatch(swarm.name):
        report.error((*path, "name"), f"a swarm's name {CHARACTERS}")
    elif swarm.name in declared:
        rule = f"the swarm {quoted(swarm.name)} is declared twice"
        report.error((*path, "name"), rule, "remove one of them")
    if swarm.kind == "ephemeral":
        rule = "this version supports only durable swarms"
        report.error((*path, "class"), rule, 'set "durable"')


def _check_unused_swarms(
    swarms: dict[int, SwarmSpec], agents: dict[int, AgentSpec], report: Report
) -> None:
    """Warn about a swarm without agents if its name is close to that of an undeclared swarm.

    Other swarms without agents are valid: clients may publish there.
    """
    declared = {swarm.name for swarm in swarms.values()}
    used = {spec.agent_rec_swarm for spec in agents.values()}
    used |= {spec.agent_send_swarm for spec in agents.values()}
    for at, swarm in swarms.items():
        if swarm.name in used or report.full("warning"):
            continue
        suggestion = did_you_mean(swarm.name, used - declared - {""})
        if suggestion:
            rule = f"no agent is on the swarm {quoted(swarm.name)}"
            report.warn(("swarms", at, "name"), rule, suggestion)


def check_stores(
    stores: dict[int, StoreSpec], named: Collection[str], report: Report
) -> dict[str, str]:
    """Return the language of each declared store by memory_id, after reporting faults.

    `named` are the stores of the agents.
    """
    languages: dict[str, str] = {}
    for at, store in stores.items():
        path, memory_id = ("stores", at, "memory_id"), store.memory_id
        if not memory_id:
            report.error(path, "a store needs a memory_id", "set that of one of the blocks")
        elif memory_id in languages:
            rule = f"the store {quoted(memory_id)} is declared twice"
            report.error(path, rule, "remove one of them")
        elif memory_id not in named and not (
            (store.policies or store.views) and built_in_name(memory_id)
        ):
            rule = f"no agent uses the store {quoted(memory_id)}"
            report.warn(path, rule, did_you_mean(memory_id, named))
        languages.setdefault(memory_id, store.language)
    return languages


def check_senders(agents: dict[int, AgentSpec], public: Collection[str], report: Report) -> None:
    """Warn about names in `agent_from` that no agent publishes under.

    These are not errors, since clients publish too, and other pipelines on a public swarm.
    """
    by_alias = {spec.agent_alias: spec.published_name for spec in agents.values() if spec.publishes}
    names = set(by_alias.values())
    suggestion = cache(partial(_suggest_sender, by_alias))  # many agents may name the same one
    for at, spec in agents.items():
        path = ("agents", at, "agent_from")
        for index, name in enumerate(spec.accepts):
            wanted = name.removeprefix("!")
            is_known = wanted in names or spec.agent_rec_swarm in public
            if not is_known and not report.full("warning"):
                where = path if isinstance(spec.agent_from, str) else (*path, index)
                rule = f"no agent publishes as {quoted(wanted)}"
                report.warn(where, rule, suggestion(wanted))
        if len({name.startswith("!") for name in spec.accepts}) > 1:
            report.warn(path, "a `!name` next to plain names has no effect", "remove it")


def check_self_answers(agents: dict[int, AgentSpec], report: Report) -> None:
    """Warn about agents with a model that get their own answers."""
    for at, spec in agents.items():
        asks_model = spec.agent_class == AI_CLASS or spec.wf_diagram_webhook == AGENT_BLOCK
        feeds_itself = spec.agent_rec_swarm and spec.agent_rec_swarm == spec.agent_send_swarm
        if asks_model and feeds_itself and not spec.accepts:
            rule = "the agent gets its own answers too, and asks the model again for each of them"
            report.warn(("agents", at, "agent_from"), rule, "name the senders that it answers")


def _suggest_sender(by_alias: dict[str, str], wanted: str) -> str:
    if wanted in by_alias:
        return f"this is an alias; its agent publishes as {quoted(by_alias[wanted])}"
    return did_you_mean(wanted, by_alias.values())
