"""Text that does nothing to a terminal but appear on it."""

import re

# Controls of a terminal (C0, DEL and C1), and what reorders or hides text; not the joiners of emoji
# and of Persian.
UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def escaped(text: str) -> str:
    """The text with what could act on a terminal as \\u001b; inside of JSON this changes nothing
    that it says."""
    return UNSAFE.sub(_escape, text)


def _escape(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))
