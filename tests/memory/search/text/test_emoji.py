"""Emoji as words: how they are indexed, and shown again."""

import pytest

from memrelay.memory.search.text.emoji import emoji_words, shown_emoji
from memrelay.memory.search.text.folding import shown
from memrelay.memory.search.text.words import parts_of, tokens


@pytest.mark.parametrize("emoji", "🎉👍❤⭐✅🦀🏠")
def test_an_emoji_is_one_indexed_word(emoji: str) -> None:
    (word,) = emoji_words(f"done {emoji}!")

    assert tokens(word) == [word] and shown(word) == emoji
    assert tokens(parts_of(f"done {emoji}!") or "") == [word]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("👍🏽", "👍"),  # a skin tone
        ("❤\ufe0f", "❤"),  # a variation selector
        ("👩\u200d💻", "👩💻"),  # a sequence
        ("🇩🇪", "🇩🇪"),  # a flag
        ("no — emoji… “here” 東京", ""),
    ],
)
def test_signs_that_only_change_an_emoji_are_ignored(text: str, words: str) -> None:
    assert shown_emoji("".join(map(shown, emoji_words(text)))) == words


def test_an_ascii_text_has_none() -> None:
    assert emoji_words(":-)") == []
