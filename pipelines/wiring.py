"""How the agents of a bundle find each other: aliases, swarms, senders."""

from collections.abc import Collection
from functools import cache, partial

from memrelay.bus.keys import SWARM
from memrelay.pipelines.bundle import AgentSpec, StoreSpec, SwarmSpec
from memrelay.pipelines.report import Place, Report, did_you_mean, quoted

CHARACTERS = "has 1 to 128 characters, no control characters and no braces"


def check_aliases(agents: dict[int, AgentSpec], report: Report) -> None:
    """Each agent has one, and no two the same."""
    first: dict[str, int] = {}
    for at, spec in agents.items():
        place, alias = ("agents", at, "agent_alias"), spec.agent_alias
        if not alias:
            report.error(place, "an agent needs an alias", "set agent_alias")
        elif not SWARM.fullmatch(alias):
            report.error(place, f"an alias {CHARACTERS}")
        elif alias in first:
            report.error(
                place, f"agents[{first[alias]}] has the alias {quoted(alias)} too", "choose another"
            )
        first.setdefault(alias, at)


def check_display_order(
    order: tuple[str, ...], agents: dict[int, AgentSpec], report: Report
) -> None:
    """It names aliases."""
    aliases = {spec.agent_alias for spec in agents.values()}
    for at, alias in enumerate(order):
        if alias not in aliases:
            rule = f"no agent has the alias {quoted(alias)}"
            report.warn(("display_order", at), rule, did_you_mean(alias, aliases))


def check_swarms(
    swarms: dict[int, SwarmSpec], agents: dict[int, AgentSpec], report: Report
) -> None:
    """Names that fit on the wire, and only the kinds of swarm that are served."""
    for at, spec in agents.items():
        for key in ("agent_rec_swarm", "agent_send_swarm"):
            name: str = getattr(spec, key)
            if name and not SWARM.fullmatch(name):
                report.error(("agents", at, key), f"a swarm's name {CHARACTERS}")
    declared: set[str] = set()
    for at, swarm in swarms.items():
        _check_swarm(swarm, ("swarms", at), declared, report)
        declared.add(swarm.name)
    used = {
        name
        for spec in agents.values()
        for name in (spec.agent_rec_swarm, spec.agent_send_swarm)
        if name
    }
    for at, swarm in swarms.items():
        meant = (
            ""
            if swarm.name in used or report.full("warning")
            else did_you_mean(swarm.name, used - declared)
        )
        if meant:  # others may be declared without an agent: who calls from outside speaks there
            report.warn(
                ("swarms", at, "name"), f"no agent is on the swarm {quoted(swarm.name)}", meant
            )


def _check_swarm(swarm: SwarmSpec, place: Place, declared: set[str], report: Report) -> None:
    if not SWARM.fullmatch(swarm.name):
        report.error((*place, "name"), f"a swarm's name {CHARACTERS}")
    elif swarm.name in declared:
        report.error(
            (*place, "name"), f"the swarm {quoted(swarm.name)} is declared twice", "leave one out"
        )
    if swarm.kind == "ephemeral":
        report.error((*place, "class"), "this version has durable swarms only", 'set "durable"')


def check_stores(
    stores: dict[int, StoreSpec], named: Collection[str], report: Report
) -> dict[str, str]:
    """The language of each store that is declared, by memory_id."""
    languages: dict[str, str] = {}
    for at, store in stores.items():
        place, memory_id = ("stores", at, "memory_id"), store.memory_id
        if not memory_id:
            report.error(place, "a store needs a memory_id", "set that of one of the blocks")
        elif memory_id in languages:
            report.error(place, f"the store {quoted(memory_id)} is declared twice", "leave one out")
        elif memory_id not in named:
            report.warn(
                place,
                f"no agent works on the store {quoted(memory_id)}",
                did_you_mean(memory_id, named),
            )
        languages.setdefault(memory_id, store.language)
    return languages


def check_senders(agents: dict[int, AgentSpec], public: Collection[str], report: Report) -> None:
    """Names in `agent_from` are published by somebody. Only a warning where not, since outside
    clients publish too.

    On a public swarm other pipelines do.
    """
    by_alias = {spec.agent_alias: spec.published_name for spec in agents.values() if spec.publishes}
    names, meant = (
        set(by_alias.values()),
        cache(partial(_meant, by_alias)),
    )  # many agents may mean the same one
    for at, spec in agents.items():
        place = ("agents", at, "agent_from")
        for index, name in enumerate(spec.accepts):
            wanted = name.removeprefix("!")
            if (
                wanted not in names
                and spec.agent_rec_swarm not in public
                and not report.full("warning")
            ):
                where = place if isinstance(spec.agent_from, str) else (*place, index)
                report.warn(where, f"no agent publishes as {quoted(wanted)}", meant(wanted))
        if len({name.startswith("!") for name in spec.accepts}) > 1:
            report.warn(place, "a `!name` beside plain names changes nothing", "leave it out")


def _meant(by_alias: dict[str, str], wanted: str) -> str:
    if wanted in by_alias:
        return f"that is an alias, which publishes as {quoted(by_alias[wanted])}"
    return did_you_mean(wanted, by_alias.values())
