"""Emoji as words. unicode61 takes them for spaces, so each is indexed as a private-use letter."""

import re

# Symbols and pictographs, without variation selectors, joiners and skin tones, which only change
# how an emoji looks.
_EMOJI = re.compile(
    "[\u231a-\u23ff\u2600-\u27bf\u2934\u2935\u2b05-\u2b55"
    "\U0001f000-\U0001f3fa\U0001f400-\U0001faff]"
)
SKIN_TONES = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
# Planes 0 and 1 go to different parts of plane 16. Plane 0 as in folding.py.
_PLANE_0, _PLANE_1 = 0x100000, 0xF0000
_WORD = re.compile("[\U0010f000-\U0010faff]")  # of plane 1


def emoji_words(text: str) -> list[str]:
    """Return the emoji of a text in order, each as the word that is indexed for it."""
    return [] if text.isascii() else [_word(found) for found in _EMOJI.findall(text)]


def shown_emoji(text: str) -> str:
    """Return a text with emoji in place of their words."""
    return _WORD.sub(lambda found: chr(ord(found[0]) - _PLANE_1), text)


def _word(emoji: str) -> str:
    code = ord(emoji)
    return chr(code + (_PLANE_1 if code > 0xFFFF else _PLANE_0))
