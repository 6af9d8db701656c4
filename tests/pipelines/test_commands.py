"""The chat commands of a pipeline, read from its relays."""

from pathlib import Path

import pytest

from memrelay.pipelines.check import check
from memrelay.pipelines.commands import hint_for, list_commands
from tests.support.bundles import make_agent, make_bundle, make_relay

SAMPLES = Path(__file__).resolve().parents[2] / "memrelay" / "pipelines"

SHOWN = ("memory_test.json", "webhook_inbox.json", "conversation.json", "coding_memory.json")


def words(*agents: dict[str, object]) -> list[str]:
    return [command.word for command in list_commands(check(make_bundle("p", *agents)).accepted())]


def test_the_commands_of_the_samples_are_listed_in_bundle_order() -> None:
    told = {
        name: [
            command.word
            for command in list_commands(check((SAMPLES / name).read_bytes()).accepted())
        ]
        for name in SHOWN
    }

    assert told == {
        "memory_test.json": ["/write", "/read", "/search", "/delete", "/append"],
        "webhook_inbox.json": ["/inbox", "/find"],
        "conversation.json": ["/recall"],
        "coding_memory.json": ["/remember", "/recall", "/find"],
    }


def test_a_command_with_flags_is_listed_once() -> None:
    assert words(make_relay("a", r"^/tell\s+(.*)", flags="is"), make_relay("b", r"^/tell\b")) == [
        "/tell"
    ]


def test_a_pattern_similar_to_a_command_is_not_listed() -> None:
    quiet = make_agent("quiet", "regex_filter", {"pattern": "^/", "invert": True})

    assert (
        words(
            quiet, make_relay("a", r"^/wr(ite)?"), make_relay("b", "tea"), make_relay("c", r"^/x*")
        )
        == []
    )


def test_a_command_is_described_by_the_agent_that_names_it_or_by_its_relay() -> None:
    relay = make_relay("a", r"^/tell\b") | {"agent_desc": "Picks out /tell."}
    teller = make_agent("teller", "add_1") | {"agent_desc": "/tell says it."}

    (alone,) = list_commands(check(make_bundle("p", relay)).accepted())
    (both,) = list_commands(check(make_bundle("p", relay, teller)).accepted())

    assert (alone.description, both.description) == ("Picks out /tell.", "/tell says it.")


KNOWN = {
    "/write": "/write TEXT stores the text.",
    "/read": "Picks out /read.",
    "/delete": "/delete GUID forgets the record with this guid.",
    "/quiet": "",
}


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "/wriet tea",
            'Unknown command "/wriet". Did you mean "/write"? '
            "Commands: /write, /read, /delete, /quiet",
        ),
        (
            "/WRITE tea",
            'Unknown command "/WRITE". Did you mean "/write"? '
            "Commands: /write, /read, /delete, /quiet",
        ),
        ("/xyz", 'Unknown command "/xyz". Commands: /write, /read, /delete, /quiet'),
        (
            "/delete",
            '"/delete" is incomplete. Usage: /delete GUID forgets the record with this guid.',
        ),
        (
            "/delete  ",
            '"/delete" is incomplete. Usage: /delete GUID forgets the record with this guid.',
        ),
        ("/read", '"/read" is incomplete. Picks out /read.'),
        ("/quiet", '"/quiet" is incomplete.'),
        ("/write tea", '"/write" does not accept this. Usage: /write TEXT stores the text.'),
        ("hello", ""),
        (" /wriet", ""),
        ("", ""),
    ],
)
def test_a_hint_corrects_a_command(text: str, hint: str) -> None:
    assert hint_for(text, KNOWN) == hint


def test_a_pipeline_without_commands_has_no_hint() -> None:
    assert hint_for("/write", {}) == ""


def test_a_hint_repeats_only_the_beginning_of_a_long_word() -> None:
    assert len(hint_for("/" + "x" * 10_000, KNOWN)) < 200
