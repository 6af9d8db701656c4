"""How many near duplicates and contradictions are found in facts.tsv, and how many are wrong.

The rules were improved with the facts of each part `dev-*` after it was first measured. `held` was
measured once, after the last change of the rules.
"""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from memrelay.testing import BlockingPipelineUnderTest, test_pipeline
from tests.support.bundles import make_agent, make_bundle

FACTS = Path(__file__).with_name("facts.tsv")
MEMORIES = {"memory_id": "instances/${pipeline_uid}/memories", "limit": 1000}
DEV = ("dev-1", "dev-2", "dev-3", "dev-4", "dev-5")


class Pair(NamedTuple):
    """Two facts: `d` for near duplicates, `c` for contradictions."""

    sort: str
    facts: frozenset[str]


class Figures(NamedTuple):
    """Proposals, right ones, and labeled pairs of one sort."""

    proposed: int
    right: int
    labeled: int


def read_facts(part: str) -> tuple[list[str], set[Pair]]:
    """Return the facts of a part in the order in which they are written, and its labeled pairs."""
    with FACTS.open() as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["part"] == part]
    by_pair: dict[str, list[str]] = {}
    for row in rows:
        if row["pair"]:
            by_pair.setdefault(row["pair"], []).append(row["text"])
    return [row["text"] for row in rows], {
        Pair(pair[0], frozenset(facts)) for pair, facts in by_pair.items()
    }


def propose(pipeline: BlockingPipelineUnderTest, part: str) -> tuple[set[Pair], list[Any]]:
    """Write the facts of a part to a memory and return what is proposed."""
    store = pipeline.store("memories")
    for text in read_facts(part)[0]:
        store.entries.create(content=text, memory=part, mode="create")
        pipeline.advance("1s")
    pipeline.say("go", swarm=part)
    reviews = [store.reviews.get(one.guid) for one in store.reviews.list(limit=1000).items]
    proposed = {
        Pair(
            "d" if "duplicates" in one.proposal.policy else "c",
            frozenset((one.proposal.candidate.content, one.other.content)),
        )
        for one in reviews
    }
    store.reviews.reject(guids=[one.proposal.guid for one in reviews])
    return proposed, reviews


def count(proposed: set[Pair], labeled: set[Pair], sort: str) -> Figures:
    right = proposed & labeled
    return Figures(*(sum(one.sort == sort for one in some) for some in (proposed, right, labeled)))


def add(figures: list[Figures]) -> Figures:
    return Figures(*map(sum, zip(*figures, strict=True)))


@pytest.fixture(scope="module", params=["local", "bge"])
def pipeline(request: pytest.FixtureRequest) -> Iterator[BlockingPipelineUnderTest]:
    agents = [
        make_agent(
            f"tidy_{part.replace('-', '_')}",
            "consolidate",
            MEMORIES | {"memory": part},
            senders="User",
            on=part,
            to="tidied",
        )
        for part in (*DEV, "held")
    ]
    with test_pipeline(make_bundle("facts", *agents), embedder=request.param) as pipeline:
        pipeline.answer("consolidate", lambda request: request)
        yield pipeline


@pytest.mark.slow
def test_few_proposals_on_the_facts_of_development_are_wrong(
    pipeline: BlockingPipelineUnderTest,
) -> None:
    found = {part: propose(pipeline, part)[0] for part in DEV}

    duplicates = add([count(found[part], read_facts(part)[1], "d") for part in DEV])
    contradictions = add([count(found[part], read_facts(part)[1], "c") for part in DEV])
    assert duplicates == Figures(24, 24, 30)
    assert contradictions == Figures(51, 50, 58)


def test_no_proposal_on_the_facts_held_out_is_wrong(pipeline: BlockingPipelineUnderTest) -> None:
    found, reviews = propose(pipeline, "held")
    labeled = read_facts("held")[1]

    assert count(found, labeled, "d") == Figures(5, 5, 6)
    assert count(found, labeled, "c") == Figures(8, 8, 14)
    texts = read_facts("held")[0]
    for review in reviews:
        if "contradictions" in review.proposal.policy:
            kept, gone = review.proposal.candidate.content, review.other.content
            assert texts.index(kept) > texts.index(gone), orjson.dumps(kept)
