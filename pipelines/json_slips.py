"""What people write that is no JSON, or not what they mean, and what to write instead."""

import json
from collections.abc import Iterable

import orjson

BEGINNINGS = (  # at the place of an error
    (("//", "/*", "#"), "JSON has no comments"),
    (
        ("'", "`", "\u2018", "\u2019", "\u201c", "\u201d", "\u201e"),
        'keys and texts stand in straight quotes, like "this"',
    ),
    (("True", "False", "None"), "write true, false or null"),
)
ENDS = (  # of what orjson says
    ("escaped sequence in string", 'a backslash in a text is written twice, like "\\\\s"'),
    ("control character in string", "a line break in a text is written \\n"),
)


def remedy_for(error: orjson.JSONDecodeError) -> str:
    """What to write instead; "" where that is not known."""
    remedies = [
        remedy for beginnings, remedy in BEGINNINGS if error.doc.startswith(beginnings, error.pos)
    ]
    return next(iter(remedies + [remedy for end, remedy in ENDS if error.msg.endswith(end)]), "")


def line_not_in_utf8(text: bytes) -> int:
    """The first such line, from 1; 0 where there is none."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return text.count(b"\n", 0, error.start) + 1
    return 0


def keys_that_stand_twice(text: bytes) -> list[str]:
    """In one object, each once: readers of JSON take the last of them without a word."""
    twice: dict[str, None] = {}

    def note(pairs: Iterable[tuple[str, None]]) -> None:
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                twice[key] = None
            seen.add(key)

    json.loads(text, object_pairs_hook=note)
    return list(twice)
