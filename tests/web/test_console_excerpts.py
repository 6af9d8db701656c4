"""The parts of found messages that the console shows."""

from memrelay.web.console.excerpts import MAX_PARTS, make_excerpts


def show(text: str, *words: str) -> list[str]:
    """Return the parts with their paths, and with the words in brackets."""
    return [
        f"{one.path}|" + "".join(f"[{text}]" if hit else text for text, hit in one.pieces)
        for one in make_excerpts(text, words)
    ]


def test_the_word_is_shown_with_its_surroundings() -> None:
    text = "a" * 500 + " Green TEA " + "b" * 500

    (shown,) = show(text, "tea")

    assert "Green [TEA] b" in shown and shown.startswith("|…") and shown.endswith("…")
    assert show("no such word", "tea") == [] == show("tea")


def test_the_value_of_json_is_shown_with_its_path() -> None:
    text = (
        '{"action": "opened", "issue": {"labels": [{"name": "x"}, {"name": "Tea bug"}], "n": 42}}'
    )

    assert show(text, "tea") == ["issue.labels[1].name|[Tea] bug"]
    assert show(text, "42", "bug") == ["issue.labels[1].name|Tea [bug]", "issue.n|[42]"]


def test_distant_words_have_their_own_parts_and_there_are_few() -> None:
    words = [f"word{number}x" for number in range(9)]
    text = ("." * 300).join(words)

    assert show(text, "word0x", "word5x") == [
        f"|[word0x]{'.' * 154}…",
        f"|…{'.' * 50}[word5x]{'.' * 104}…",
    ]
    assert len(make_excerpts(text, words)) == MAX_PARTS
