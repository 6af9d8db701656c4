"""What a person may say to a pipeline is told by its relays."""

from pathlib import Path

from memrelay.pipelines.check import check
from memrelay.pipelines.commands import commands_of
from tests.support.bundles import make_agent, make_bundle, make_relay

SAMPLES = Path(__file__).resolve().parents[2] / "pipelines"


def words(*agents: dict[str, object]) -> list[str]:
    return [command.word for command in commands_of(check(make_bundle("p", *agents)).accepted())]


def test_the_samples_tell_their_commands_in_the_order_of_the_bundle() -> None:
    told = {
        name: [
            command.word for command in commands_of(check((SAMPLES / name).read_bytes()).accepted())
        ]
        for name in ("memory_test.json", "webhook_inbox.json", "conversation.json")
    }

    assert told == {
        "memory_test.json": ["/write", "/read", "/search", "/delete", "/append"],
        "webhook_inbox.json": ["/inbox", "/find"],
        "conversation.json": ["/recall"],
    }


def test_flags_do_not_hide_a_command_and_it_is_told_once() -> None:
    assert words(make_relay("a", r"^/tell\s+(.*)", flags="is"), make_relay("b", r"^/tell\b")) == [
        "/tell"
    ]


def test_what_only_looks_like_a_command_is_none() -> None:
    quiet = make_agent("quiet", "regex_filter", {"pattern": "^/", "invert": True})

    assert (
        words(
            quiet, make_relay("a", r"^/wr(ite)?"), make_relay("b", "tea"), make_relay("c", r"^/x*")
        )
        == []
    )


def test_a_command_is_described_by_the_agent_that_begins_with_it_else_by_its_relay() -> None:
    relay = make_relay("a", r"^/tell\b") | {"agent_desc": "Picks out /tell."}
    teller = make_agent("teller", "add_1") | {"agent_desc": "/tell says it."}

    (alone,) = commands_of(check(make_bundle("p", relay)).accepted())
    (both,) = commands_of(check(make_bundle("p", relay, teller)).accepted())

    assert (alone.description, both.description) == ("Picks out /tell.", "/tell says it.")
