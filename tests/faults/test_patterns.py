"""Row 10: patterns in bundles take linear time, or a deploy refuses them with a JSON pointer."""

import time
from collections.abc import Iterator

import pytest

from memrelay.blocks.patterns import Pattern, PatternSet
from tests.faults.conftest import Tell
from tests.support.bundles import Json, make_agent, make_bundle, make_memory, make_relay, make_uid
from tests.support.probe import Probe
from tests.support.served import Served
from tests.support.waiting import LATE_S

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
def served() -> Iterator[Served]:
    """One server for all tests."""
    with Served() as served:
        yield served


@pytest.mark.parametrize("source", NESTED)
def test_nested_quantifiers_on_10_mb_take_linear_time(source: str, tell: Tell) -> None:
    pattern, took_s = Pattern(source), []
    for size in (MB, 10 * MB):
        began = time.perf_counter()
        pattern.capture("a" * size + "\t", 0)
        PatternSet([pattern, Pattern("zzz")]).matching("a" * size + "\t")
        took_s.append(time.perf_counter() - began)

    tell(10, f"{source} on 10 MB", s=took_s[1])
    assert took_s[1] < max(
        40 * took_s[0], LATE_S
    )  # ten times is linear; four times that is a busy machine


def test_the_largest_pattern_is_bounded_on_the_longest_message(tell: Tell) -> None:
    pattern = Pattern("a.{600}c")
    text = "".join("ab"[(at * at + at // 7) % 2] for at in range(MB))

    began = time.perf_counter()
    pattern.capture(text, 0)

    tell(10, "a.{600}c on 1 MiB", s=time.perf_counter() - began)
    assert time.perf_counter() - began < 30


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("block", ["regex_match", "regex_filter"])
def test_a_hostile_pattern_is_refused_at_deploy_with_a_pointer(
    served: Served, name: str, block: str
) -> None:
    source, rule = REFUSED[name]
    agents: list[Json] = [
        make_memory("write", hears="picks"),
        make_agent("picks", block, {"pattern": source}),
    ]

    answer = served.post("/v1/pipelines", make_bundle(make_uid(), *agents))

    assert answer.problem[0] == 422
    (fault,) = answer.json["faults"]
    assert fault["pointer"].startswith("/agents/1/wf_webhook_args")
    assert rule in fault["rule"]


def test_nested_quantifiers_in_a_bundle_delay_no_other_pipeline(served: Served, tell: Tell) -> None:
    uid, probe = (
        served.deploy(*[make_relay(f"r{at}", source) for at, source in enumerate(NESTED)]),
        Probe(served.house),
    )

    ident = served.house.client.enter(uid, "a" * 1_000_000 + "\t")
    slowest_s = probe.slowest_s(
        lambda: not served.house.client.redis.xlen(f"pipeline:{{{uid}}}:in")
    )

    tell(10, "eight nested quantifiers on a message of 1 MB", others_s=slowest_s)
    assert ident and slowest_s < 5 + LATE_S
