"""A rehearsal shows what a changed bundle would have made of the same inputs, and nothing else."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from memrelay.memory.records.record import DEFAULT_KIND
from memrelay.rehearsal.difference import diff_words
from memrelay.rehearsal.output import format_junit, format_report
from tests.rehearsal.helpers import LivePipeline
from tests.support.bundles import Json, make_agent, make_bundle, make_memory, make_relay

WRITE = make_relay("write", "^/write (.*)", flags="s")
KEEP = make_memory("write")
BUNDLE = make_bundle("p", WRITE, KEEP)


def filtered(pattern: str) -> Json:
    """Return a bundle that stores the texts that a filter lets pass."""
    passing = make_agent("filter", "regex_filter", {"pattern": pattern}, senders="dispatch_write")
    return make_bundle("p", WRITE, passing, make_memory("write", senders="filter"))


def templated(template: str) -> Json:
    """Return a bundle that stores texts of a template."""
    making = make_agent("making", "template", {"template": template}, senders="dispatch_write")
    return make_bundle("p", WRITE, making, make_memory("write", senders="making"))


def named(**args: Any) -> Json:
    """Return a bundle that keeps the texts in a named memory."""
    keeping = make_agent(
        "keeping",
        "memory_entry_write",
        {"memory_id": "instances/p/memories", "memory": "facts"} | args,
        senders="dispatch_write",
    )
    return make_bundle("p", WRITE, keeping)


def facts(**args: Any) -> Json:
    keeping = make_agent(
        "keeping",
        "remember",
        {"memory_id": "instances/p/stores/facts"} | args,
        senders="dispatch_write",
    )
    return make_bundle("p", WRITE, keeping)


TEXTS = ["/write tea is hot", "/write coffee is strong", "hello", "/write milk is white"]
Change = tuple[str, str | None, str | None]
# Deployed bundle, candidate, texts, changes of records, and other differences by their counts.
Case = tuple[Json, Json, list[str], list[Change], dict[str, int]]
CASES: dict[str, Case] = {
    "pattern": (
        BUNDLE,
        make_bundle("p", make_relay("write", "^/write (t.*|m.*)", flags="s"), KEEP),
        TEXTS,
        [("missing", "coffee is strong", None)],
        {"messages": 2},
    ),
    "wider pattern": (
        BUNDLE,
        make_bundle("p", make_relay("write", "^(?:/write )?(.*)", flags="s"), KEEP),
        TEXTS,
        [("added", None, "hello")],
        {"messages": 2},
    ),
    "template": (
        templated("{{ text }}"),
        templated("Said: {{ text | upper }}"),
        TEXTS[:2],
        [
            ("changed", "tea is hot", "Said: TEA IS HOT"),
            ("changed", "coffee is strong", "Said: COFFEE IS STRONG"),
        ],
        {"messages": 2},
    ),
    "kind": (
        BUNDLE,
        make_bundle("p", WRITE, make_memory("write", kind="fact")),
        TEXTS[:1],
        [("changed", "tea is hot", "tea is hot")],
        {},
    ),
    "tags": (
        BUNDLE,
        make_bundle("p", WRITE, make_memory("write", tags=["drink"])),
        TEXTS[:1],
        [("changed", "tea is hot", "tea is hot")],
        {},
    ),
    "filter": (
        filtered("tea|coffee"),
        filtered("tea|milk"),
        TEXTS,
        [("missing", "coffee is strong", None), ("added", None, "milk is white")],
        {"messages": 4},
    ),
    "duplicates": (
        named(duplicate_threshold=0.99, update_threshold=2),
        named(duplicate_threshold=0.3, update_threshold=2),
        ["/write Anna lives in Oslo", "/write Anna lives in Oslo now", "/write The sky is blue"],
        [("missing", "Anna lives in Oslo now", None)],
        {"messages": 1},
    ),
    "merged otherwise": (
        named(duplicate_threshold=2, update_threshold=2),
        named(duplicate_threshold=2, update_threshold=0.3),
        ["/write Anna lives in Oslo", "/write Anna lives in Oslo now"],
        [
            ("changed", "Anna lives in Oslo", "Anna lives in Oslo\nAnna lives in Oslo now"),
            ("missing", "Anna lives in Oslo now", None),
        ],
        {"messages": 1},
    ),
    "fact": (
        facts(),
        facts(overwrite=False),
        ["/write color = blue", "/write color = red", "/write size = small"],
        [("changed", "color: red", "color: blue")],
        {"messages": 1},
    ),
    "another agent": (
        BUNDLE,
        make_bundle(
            "p",
            WRITE,
            KEEP,
            make_relay("note", "(coffee)", to=""),
            NOTE := make_memory("write", senders="dispatch_write", alias="copying", kind="copy"),
        ),
        TEXTS[:1],
        [("added", None, "tea is hot")],
        {"messages": 1},
    ),
    "removed agent": (
        BUNDLE,
        make_bundle("p", WRITE),
        TEXTS[:1],
        [("missing", "tea is hot", None)],
        {"messages": 1},
    ),
    "another store": (
        BUNDLE,
        make_bundle("p", WRITE, make_memory("write", memory_id="instances/p/other")),
        TEXTS[:1],
        [("missing", "tea is hot", None), ("added", None, "tea is hot")],
        {},
    ),
    "loop": (
        BUNDLE,
        make_bundle(
            "p",
            WRITE,
            KEEP,
            make_agent("echo", "regex_filter", {"pattern": "."}, senders=["memory_write", "again"]),
            make_agent("again", "regex_filter", {"pattern": "."}, senders="echo"),
        ),
        TEXTS[:1],
        [("missing", "tea is hot", None)],
        {"messages": 2, "dead_letters": 1},
    ),
    "swarm": (
        BUNDLE,
        {
            **make_bundle(
                "p",
                *[one | {"agent_rec_swarm": "x", "agent_send_swarm": "x"} for one in (WRITE, KEEP)],
            )
        },
        TEXTS[:1],
        [("missing", "tea is hot", None)],
        {"messages": 2, "dead_letters": 1},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_change_shows_exactly_what_it_changes(name: str, tmp_path: Path) -> None:
    bundle, candidate, texts, records, others = CASES[name]
    live = LivePipeline(tmp_path / "live", bundle)
    live.say(*texts)
    report = live.rehearse(tmp_path / "rehearsal", candidate)
    live.close()

    found = [
        (one["change"], *map(read_text, (one["then"], one["candidate"])))
        for one in report["records"]
    ]
    assert found == records, format_report(report)
    counts = {name: count for name, count in report["counts"].items() if count}
    assert {name: one for name, one in counts.items() if "records" not in name} == others
    assert not report["equal"] and "failure" in format_junit(report)


def read_text(side: Any) -> str | None:
    return None if side is None else side["content"]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LivePipeline]:
    live = LivePipeline(tmp_path / "live", BUNDLE)
    yield live
    live.close()


def test_the_same_bundle_has_no_difference(live: LivePipeline, tmp_path: Path) -> None:
    live.say(*TEXTS)

    report = live.rehearse(tmp_path / "r", BUNDLE)

    assert report["equal"], format_report(report)
    assert report["inputs"] == {"rehearsed": 4, "not_rehearsed": 0, "reasons": []}
    assert "no difference" in format_report(report)
    assert "failures='0'" in format_junit(report)


def test_a_renamed_agent_differs_only_in_the_source(live: LivePipeline, tmp_path: Path) -> None:
    live.say(*TEXTS)
    renamed = KEEP | {"wf_agent_name": "keeper", "agent_alias": "keeper_"}

    report = live.rehearse(tmp_path / "r", make_bundle("p", WRITE, renamed))

    assert report["equal"], format_report(report)
    assert report["sources"] == [{"then": "memory_write", "candidate": "keeper", "records": 3}]


def test_old_records_that_only_one_side_changes_are_compared(tmp_path: Path) -> None:
    append = [
        make_relay("append", "^/append (.*)", flags="s"),
        make_memory("append", kind=DEFAULT_KIND),
    ]
    live = LivePipeline(tmp_path / "live", make_bundle("p", WRITE, KEEP, *append))
    live.say("/write tea")
    since_ms = live.now_ms + 1
    live.say("/append and milk")

    report = live.rehearse(tmp_path / "r", BUNDLE, since_ms)
    live.close()

    (record,) = report["records"]
    assert (record["change"], record["input"]) == ("changed", "")
    assert (read_text(record["then"]), read_text(record["candidate"])) == ("tea\nand milk", "tea")


def test_a_request_is_not_made_and_its_message_not_rehearsed(tmp_path: Path) -> None:
    def sending(text: str) -> Json:
        args = {"url": "https://example.org/hook", "body": text}
        return make_bundle(
            "p", WRITE, KEEP, make_agent("sending", "webhook_send", args, senders="memory_write")
        )

    live = LivePipeline(tmp_path / "live", sending('{"is": 1}'))
    live.say("/write tea", "hello")
    report = live.rehearse(tmp_path / "r", sending('{"is": 2}'))
    live.close()

    assert report["counts"]["webhooks"] == 1 and not report["requests"]
    (webhook,) = report["webhooks"]
    assert ": 1}" in webhook["then"]["request"] and ": 2}" in webhook["candidate"]["request"]
    assert report["inputs"]["not_rehearsed"] == 1
    (reason,) = report["inputs"]["reasons"]
    assert "sending_ waits for the answer to a request (webhook_send)" in reason["reason"]


@pytest.mark.parametrize(
    ("before", "after", "wanted"),
    [
        ("tea is hot", "tea is very cold", [("=", "tea is"), ("-", " hot"), ("+", " very cold")]),
        ("green tea is good", "tea is good", [("-", "green"), ("=", " tea is good")]),
        ("hot  tea", "hot tea", [("-", "hot  tea"), ("+", "hot tea")]),
    ],
)
def test_words_that_differ_are_marked(
    before: str, after: str, wanted: list[tuple[str, str]]
) -> None:
    assert diff_words(before, after) == wanted


def test_public_messages_are_reported_and_go_nowhere(tmp_path: Path) -> None:
    def telling(text: str) -> Json:
        teller = make_agent(
            "teller", "template", {"template": text}, senders="dispatch_write", to="news"
        )
        reader = make_memory("write", senders="teller", alias="reader", kind="news")
        reader |= {"agent_rec_swarm": "news"}
        swarms = [{"name": "news", "visibility": "public"}]
        return make_bundle("p", WRITE, teller, reader, swarms=swarms)

    live = LivePipeline(tmp_path / "live", telling("{{ text }}"))
    live.say("/write tea")
    report = live.rehearse(tmp_path / "r", telling("News: {{ text }}"))
    live.close()

    (message,) = report["messages"]
    assert message["then"] | {"is_public": True, "swarm": "news", "text": "tea"} == message["then"]
    assert message["candidate"]["text"] == "News: tea"
    assert not report["records"]


def test_each_input_runs_under_the_version_of_its_time(tmp_path: Path) -> None:
    live = LivePipeline(tmp_path / "live", BUNDLE)
    live.say("/write tea")
    live.deploy(make_bundle("p", WRITE, make_memory("write", kind="fact")))
    live.say("/write coffee")

    report = live.rehearse(tmp_path / "r", BUNDLE)
    live.close()

    assert len(report["versions"]) == 2
    (record,) = report["records"]
    assert record["fields"] == {"kind": ["fact", "observation"]}, record


def test_an_input_that_arrived_before_a_deploy_runs_as_it_did_after_it(tmp_path: Path) -> None:
    live = LivePipeline(tmp_path / "live", BUNDLE)
    early = live.entry("/write tea")
    fact = make_bundle("p", WRITE, make_memory("write", kind="fact"))
    live.deploy(fact)
    live.run(replace(early, plan=live.plan))

    report = live.rehearse(tmp_path / "r", fact)
    live.close()

    assert report["inputs"]["rehearsed"] == 1
    assert report["equal"], format_report(report)


def test_rates_delay_nothing_and_bursts_are_not_rehearsed(tmp_path: Path) -> None:
    def flowing(**flow: Any) -> Json:
        return make_bundle("p", WRITE, KEEP | {"wf_flow": flow})

    live = LivePipeline(tmp_path / "live", BUNDLE)
    live.say("/write tea", "/write coffee")
    rated = live.rehearse(tmp_path / "rate", flowing(rate="1/3600s"))
    burst = live.rehearse(tmp_path / "burst", flowing(debounce_s=5))
    live.close()

    assert rated["equal"] and rated["inputs"]["rehearsed"] == 2, format_report(rated)
    assert burst["inputs"]["not_rehearsed"] == 2
    assert "wf_flow" in burst["inputs"]["reasons"][0]["reason"]


def test_deliveries_to_endpoints_are_compared_and_not_sent(tmp_path: Path) -> None:
    def delivering(*agents: Json, **endpoint: Any) -> Json:
        crm = {"name": "crm", "url": "env:NO_SUCH_URL", "events": ["record.created"]} | endpoint
        return make_bundle("p", *agents, endpoints=[crm])

    live = LivePipeline(tmp_path / "live", delivering(WRITE, KEEP))
    live.say("/write tea", "/write coffee")
    renamed = live.rehearse(
        tmp_path / "renamed", delivering(WRITE, make_memory("write", alias="keeper"))
    )
    about_tea = {"content": {"contains": "tea"}}
    filtered = live.rehearse(tmp_path / "filtered", delivering(WRITE, KEEP, filter=about_tea))
    without = live.rehearse(tmp_path / "without", BUNDLE)
    live.close()

    assert renamed["equal"], format_report(renamed)
    (missing,) = filtered["deliveries"]
    assert (missing["input"], missing["candidate"]) == ("1796000003000-0", None)
    expected = {"endpoint": "crm", "event": "record.created", "store": "instances/p/memories"}
    assert missing["then"] == expected | {"record": missing["then"]["record"]}
    assert filtered["counts"] | {"deliveries": 1} == filtered["counts"]
    assert "delivery of input 1796000003000-0" in format_report(filtered)
    assert without["counts"]["deliveries"] == 2


def test_another_order_alone_is_no_difference(tmp_path: Path) -> None:
    def speaking(*names: str) -> Json:
        speakers = [
            make_agent(name, "template", {"template": f"{name} of it"}, senders="dispatch_write")
            for name in names
        ]
        return make_bundle("p", WRITE, *speakers)

    live = LivePipeline(tmp_path / "live", speaking("one", "two", "three"))
    live.say("/write tea")
    swapped = live.rehearse(tmp_path / "swapped", speaking("two", "one", "three"))
    other = live.rehearse(tmp_path / "other", speaking("two", "one", "four"))
    live.close()

    assert swapped["equal"] and swapped["order"] == {"messages": 1}
    assert "another order of messages: 1 inputs" in format_report(swapped)
    assert [one["then"]["text"] for one in other["messages"]] == ["three of it"]
    assert other["order"] == {}
