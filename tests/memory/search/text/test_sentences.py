"""The part of a long message that asks."""

import pytest

from memrelay.memory.search.text.sentences import asking_part

CHAT = "Hello again, I had a long day at the office and a late train home."


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (f"{CHAT} When did Ann paint the lake?", "When did Ann paint the lake?"),
        (f"When did Ann paint the lake? {CHAT}", "When did Ann paint the lake?"),
        (f"{CHAT}\nfind the invoice of the supplier", "find the invoice of the supplier"),
        (f"{CHAT} So, tell me what Ann paints.", "So, tell me what Ann paints."),
        (
            f"Where is Ann's lake? {CHAT} Who bought her painting?",
            "Where is Ann's lake? Who bought her painting?",
        ),
        (f"{CHAT} Wann hat Ann den See gemalt?", "Wann hat Ann den See gemalt?"),
        (f"{CHAT} アンは湖をいつ描きましたか\uff1f", "アンは湖をいつ描きましたか\uff1f"),
        # no sentence asks, or all do
        (f"{CHAT} It rained.", ""),
        ("When did Ann paint the lake? And who bought that painting from her last year?", ""),
        # short
        ("It rained. Where was Ann?", ""),
        ("", ""),
        # what asks is too little: `he` refers to the sentence before
        (f"{CHAT} Bob was at the fair. What did he buy?", ""),
        # a period inside an abbreviation or a number does not matter
        (f"{CHAT} Does v1.2 of the e.g. parser run?", "Does v1.2 of the e.g. parser run?"),
    ],
)
def test_the_sentences_that_ask(message: str, expected: str) -> None:
    assert asking_part(message, "english") == expected


def test_a_huge_message_takes_no_time_that_matters() -> None:
    assert asking_part("word. " * 100_000, "english") == ""
    assert asking_part("? " * 100_000, "english") == ""
