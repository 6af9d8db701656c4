"""Row 10: patterns in bundles take linear time, or a deploy refuses them with a JSON pointer."""

import time
from collections.abc import Iterator

import pytest

from memrelay.blocks.patterns import Pattern, PatternSet
from tests.faults.conftest import RecordFigures
from tests.support.bundles import Json, make_agent, make_bundle, make_memory, make_relay, make_uid
from tests.support.probe import Probe
from tests.support.waiting import LATE_S
from tests.support.web_system import WebSystem

MB = 1 << 20
NESTED = [
    "(a+)+$",
    "(a|aa)+$",
    "(a*)*b",
    "(.*)*x",
    "((a+)+)+!",
    r"(\s*\w*)*!",
    "(x+x+)+y",
    "^(([a-z])+.)+[A-Z]([a-z])+$",
]
REFUSED = {
    "look-ahead": ("/write(?= tea)", "look-around and back-references are not available"),
    "look-behind": ("(?<=/)write", "look-around and back-references are not available"),
    "a back-reference": (r"(a)\1", "look-around and back-references are not available"),
    "an atomic group": ("(?>a+)b", "look-around and back-references are not available"),
    "too many characters": ("a" * 2001, "the pattern has 2001 characters; at most 2000"),
    "repetitions of repetitions": ("(a{1000}){1000}", "RE2 refuses the pattern"),
    "too many steps": (".{0,1000}x", "the pattern is too large: it compiles to"),
    "too much memory": (r"\pL{1,200}" * 10, "RE2 refuses the pattern"),
    "a bracket that stays open": ("(a", "RE2 refuses the pattern"),
}


@pytest.fixture(scope="module")
def web_system() -> Iterator[WebSystem]:
    """One server for all tests."""
    with WebSystem() as web_system:
        yield web_system


@pytest.mark.parametrize("source", NESTED)
def test_nested_quantifiers_on_10_mb_take_linear_time(
    source: str, record_figures: RecordFigures
) -> None:
    pattern, took_s = Pattern(source), []
    for size in (MB, 10 * MB):
        began = time.perf_counter()
        pattern.capture("a" * size + "\t", 0)
        PatternSet([pattern, Pattern("zzz")]).matching("a" * size + "\t")
        took_s.append(time.perf_counter() - began)

    record_figures(10, f"{source} on 10 MB", s=took_s[1])
    assert took_s[1] < max(
        40 * took_s[0], LATE_S
    )  # ten times is linear; four times that is a busy machine


def test_the_largest_pattern_is_bounded_on_the_longest_message(
    record_figures: RecordFigures,
) -> None:
    pattern = Pattern("a.{600}c")
    text = "".join("ab"[(at * at + at // 7) % 2] for at in range(MB))

    began = time.perf_counter()
    pattern.capture(text, 0)

    record_figures(10, "a.{600}c on 1 MiB", s=time.perf_counter() - began)
    assert time.perf_counter() - began < 30


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("block", ["regex_match", "regex_filter"])
def test_a_hostile_pattern_is_refused_at_deploy_with_a_pointer(
    web_system: WebSystem, name: str, block: str
) -> None:
    source, rule = REFUSED[name]
    agents: list[Json] = [
        make_memory("write", senders="picks"),
        make_agent("picks", block, {"pattern": source}),
    ]

    answer = web_system.post("/v1/pipelines", make_bundle(make_uid(), *agents))

    assert answer.problem[0] == 422
    (fault,) = answer.json["faults"]
    assert fault["pointer"].startswith("/agents/1/wf_webhook_args")
    assert rule in fault["rule"]


def test_nested_quantifiers_in_a_bundle_delay_no_other_pipeline(
    web_system: WebSystem, record_figures: RecordFigures
) -> None:
    uid, probe = (
        web_system.deploy(*[make_relay(f"r{at}", source) for at, source in enumerate(NESTED)]),
        Probe(web_system.system),
    )

    ident = web_system.system.client.enter(uid, "a" * 1_000_000 + "\t")
    slowest_s = probe.slowest_s(
        lambda: not web_system.system.client.redis.xlen(f"pipeline:{{{uid}}}:in")
    )

    record_figures(10, "eight nested quantifiers on a message of 1 MB", others_s=slowest_s)
    assert ident and slowest_s < 5 + LATE_S
