"""Terminal input and output. This module escapes text that could control a terminal."""

import re

# Control characters (C0, DEL and C1) and characters that reorder or hide text. The joiners of
# emoji and of Persian are allowed.
UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def escaped(text: str) -> str:
    """Return the text with unsafe characters as \\u001b. JSON keeps its meaning."""
    return UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
