"""Finds pipelines and agents by their names, uids and descriptions, without a call."""

from collections.abc import Iterable, Iterator
from urllib.parse import quote

from memrelay.web.api.directory import Served
from memrelay.web.console.agents import list_agents
from memrelay.web.console.finding.result import Result, score_names


def find_pipelines(pipelines: Iterable[Served], text: str) -> Iterator[Result]:
    """Yield the pipelines whose names contain all words of a text."""
    for served in pipelines:
        deployed, description = served.deployed, served.bundle.description
        score = score_names(text, (deployed.name, deployed.uid, description))
        if score:
            url = f"/pipelines/{deployed.uid}"
            yield Result(deployed.name, url, deployed.uid, deployed.name, description, score)


def find_agents(pipelines: Iterable[Served], text: str) -> Iterator[Result]:
    """Yield the agents whose names contain all words of a text."""
    for served in pipelines:
        uid, pipeline = served.deployed.uid, served.deployed.name
        for agent in list_agents(served.bundle):
            names = (agent.name, agent.alias, agent.block, agent.description)
            score = score_names(text, names)
            if score:
                note = f"{agent.block}. {agent.description}" if agent.description else agent.block
                url = f"/pipelines/{uid}#agent-{quote(agent.alias)}"
                yield Result(agent.name, url, uid, pipeline, note, score)
