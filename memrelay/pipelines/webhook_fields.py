"""References to a part of a webhook request, as the description of a sender writes them.

`header:NAME` is a header, `body:EXPRESSION` a value of the JSON body (JMESPath), and
`signature:KEY` an element `KEY=...` of the signature's header. A text with braces joins several,
for example `{header:ce-source} {header:ce-id}`; `{body}` is the raw body.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from memrelay.pipelines.expressions import compile_expression

# Names that a text in braces may have without a colon.
WHOLE = frozenset({"body", "url", "method", "timestamp", "id", "event", "digest", "form"})
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
MAX_LENGTH = 1000
_BRACES = re.compile(r"\{([^{}]*)\}")


class Place(NamedTuple):
    """One part of a request. `kind` is header, body, signature, or a name in WHOLE.

    `name` is the header, the JMESPath expression, or the key. It is "" for a whole part.
    """

    kind: str
    name: str = ""


Field = tuple[str | Place, ...]  # texts and places, to be joined


@lru_cache(maxsize=1000)
def parse_field(text: str) -> Field:
    """Return the texts and places of a reference. Raises ValueError that names the rule."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"must have at most {MAX_LENGTH} characters")
    if "{" not in text:
        return (_parse_place(text),)
    found: list[str | Place] = []
    for number, piece in enumerate(_BRACES.split(text)):
        if number % 2:
            found.append(_parse_place(piece))
        elif "{" in piece or "}" in piece:
            raise ValueError(f"has a brace without its counterpart: {piece[:50]!r}")
        elif piece:
            found.append(piece)
    return tuple(found)


def _parse_place(text: str) -> Place:
    kind, colon, name = text.partition(":")
    if not colon and kind in WHOLE:
        return Place(kind)
    if kind == "header" and HEADER_NAME.fullmatch(name):
        return Place(kind, name)
    if kind == "body" and name:
        compile_expression(name)
        return Place(kind, name)
    if kind == "signature" and name.isalnum():
        return Place(kind, name)
    raise ValueError(
        f"{text[:50]!r} names no part of a request; write header:NAME, body:EXPRESSION (JMESPath), "
        f"signature:KEY, or one of {', '.join(sorted(WHOLE))}"
    )
