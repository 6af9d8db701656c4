"""The one reader of what a user searches for: words, and a little syntax (docs/search.md). Nothing
typed is an error of syntax.

What is malformed is words to find. FTS5's own operators are words too: whatever reaches FTS5 is
quoted here.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Annotated

from msgspec import Struct
from pydantic import Field

from memrelay.memory.errors import Refused
from memrelay.memory.text.words import BREAK, in_parts, taken_apart, tokens
from memrelay.memory.timestamps import as_ms

# FTS5 takes seconds for some thousands: its time grows with their square, and with each hit in a
# long text
MAX_WORDS = 256
MAX_ITEMS = 4096  # different things between spaces; also where their words are not all wanted
MAX_CHARS = 1 << 16  # of these together
MAX_PREFIXES = 16  # each stands for all words that begin like it, which may be all that there are
MAX_FILTERS = 64  # SQLite has a limit on the depth of a condition

_ITEM = re.compile(r'-?(?:(?:kind|tag|scope|after|before):)?"[^"]*"|\S+')
_FILTER = re.compile(r'(kind|tag|scope|after|before):(?:"([^"]+)"|([^"].*))', re.DOTALL)
_NOTHING = str.maketrans({"\x00": " ", BREAK: " "})
_CURLY = "\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02"  # quotes as keyboards and editors set them
_QUOTED = re.compile(rf'"[^"]*"|(?<!\w)[{_CURLY}]([^"{_CURLY}]*)[{_CURLY}](?!\w)')
_HASH = re.compile(
    "(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,39}"
)  # its beginning, as people name a commit


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for. A record that is found has all words, phrases and prefixes, and nothing
    of what is excluded."""

    words: tuple[str, ...] = ()  # as typed, each once
    phrases: tuple[str, ...] = ()  # the text between the quotes
    prefixes: tuple[str, ...] = ()  # without their star
    excluded: tuple[str, ...] = ()  # expressions of FTS5, quoted
    kinds: tuple[str, ...] = ()  # one of them, where there are any
    scopes: tuple[str, ...] = ()  # one of them, where there are any
    tags: tuple[str, ...] = ()  # all of them
    after_ms: int | None = None  # created at this moment or later, Unix ms
    before_ms: int | None = None  # created before this moment, Unix ms

    @property
    def wants_words(self) -> bool:
        """Whether there is anything to match; without it, a query with filters wants all that they
        let pass."""
        return bool(self.words or self.phrases or self.prefixes)

    @property
    def filters(self) -> bool:
        """Whether it names any filter."""
        return (
            bool(self.kinds or self.scopes or self.tags)
            or self.after_ms is not None
            or self.before_ms is not None
        )


@dataclass(slots=True)
class _Reading:
    """A query while it is read."""

    found: dict[str, list[str]] = field(default_factory=dict)  # field of Query -> its values
    after: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    unwanted: list[str] = field(default_factory=list)  # what is excluded, as typed

    def add(self, name: str, value: str) -> None:
        self.found.setdefault(name, []).append(value)


def parse(text: str) -> Query:
    """Reads a query. Raises Refused where it has more than one of the bounds above; `match_all`
    sees to what is wanted."""
    text = _QUOTED.sub(_straight, text.encode(errors="replace").decode().translate(_NOTHING))
    items = dict.fromkeys(_ITEM.findall(text))
    _check_size(items)
    reading = _Reading()
    for item in items:
        _read(item, reading)
    query = Query(
        **{name: tuple(dict.fromkeys(values)) for name, values in reading.found.items()},
        after_ms=max(reading.after, default=None),
        before_ms=min(reading.before, default=None),
    )
    if query.excluded and not query.wants_words and not query.filters:
        return replace(query, words=tuple(item for item in items if tokens(item)), excluded=())
    if (
        len(query.prefixes) + sum(one.rstrip(")").endswith("*") for one in query.excluded)
        > MAX_PREFIXES
    ):
        raise Refused(
            f"the query has more than {MAX_PREFIXES} words that end with a star; at most as many are taken"
        )
    if len(query.kinds) + len(query.scopes) + len(query.tags) > MAX_FILTERS:
        raise Refused(
            f"the query names more than {MAX_FILTERS} kinds, scopes and tags; at most as many are taken"
        )
    if query.excluded and (count := _count(reading.unwanted)) > MAX_WORDS:
        raise Refused(f"the query excludes {count} words; exclude at most {MAX_WORDS}")
    return _with_hashes(query)


def _straight(quoted: re.Match[str]) -> str:
    return quoted[0] if quoted[1] is None else f'"{quoted[1]}"'


def _with_hashes(query: Query) -> Query:
    """What may be the beginning of a hash is one, as long as so many are taken."""
    hashes = tuple(filter(_HASH.fullmatch, query.words))[: MAX_PREFIXES - len(query.prefixes)]
    if not hashes:
        return query
    return replace(
        query,
        words=tuple(word for word in query.words if word not in hashes),
        prefixes=query.prefixes + hashes,
    )


def plain(text: str) -> Query:
    """What is said, as words alone: nothing in it is syntax. Raises Refused as `parse` does."""
    items = dict.fromkeys(text.encode(errors="replace").decode().translate(_NOTHING).split())
    _check_size(items)
    return Query(words=tuple(item for item in items if tokens(item)))


def _check_size(items: Collection[str]) -> None:
    """Of different items. Raises Refused."""
    if len(items) > MAX_ITEMS:
        raise Refused(f"the query has {len(items)} different words; at most {MAX_ITEMS} are taken")
    if (length := sum(map(len, items))) > MAX_CHARS:
        raise Refused(
            f"the different words of the query have {length} characters; at most {MAX_CHARS} are taken"
        )


def _read(item: str, reading: _Reading) -> None:
    """One item of a query, which is a word unless it is well formed as something else."""
    if _filter(item, reading):
        return
    if not tokens(item):
        return  # nothing that could be found: punctuation, an emoji
    if item[0] == "-" and item[1] != "-" and not _FILTER.fullmatch(item, 1):
        reading.unwanted.append(item[1:])
        reading.add("excluded", _excluded(item[1:]))
    else:
        name, wanted = _form(item)
        reading.add(name, wanted)


def _form(item: str) -> tuple[str, str]:
    """(field of Query, value) of what is wanted or excluded."""
    if item[0] == item[-1] == '"' and item.count('"') == 2:
        return "phrases", item[1:-1]
    if item[-1] == "*" and (item[-2].isalnum() or item[-2] > "\x7f") and '"' not in item:
        return "prefixes", item[:-1]
    return "words", item


def _filter(item: str, reading: _Reading) -> bool:
    """Takes a filter, if the item is a well-formed one."""
    match = _FILTER.fullmatch(item)
    if match is None:
        return False
    name, value = match[1], match[2] or match[3]
    if name not in ("after", "before"):
        reading.add(name + "s", value)
        return True
    moment = as_ms(value)
    if moment is not None:
        (reading.after if name == "after" else reading.before).append(moment)
    return moment is not None


def match_all(query: Query) -> str:
    """The FTS5 expression for records that have all that is wanted; "" where nothing is. Raises
    Refused for too many words.

    A quoted word of several tokens (`user-name`) is a phrase of them.
    """
    count = _count((*query.words, *query.phrases, *query.prefixes))
    if count > MAX_WORDS:
        raise Refused(
            f"the query has {count} words; at most {MAX_WORDS} are looked for, since a record must hold them all"
        )
    wanted = " AND ".join(
        [
            *map(_expression, query.words),
            *map(_expression, query.phrases),
            *(_expression(prefix, " *") for prefix in query.prefixes),
        ]
    )
    return f"({wanted}) NOT ({match_any(query)})" if wanted and query.excluded else wanted


def match_any(query: Query) -> str:
    """The FTS5 expression for records that have anything of what is excluded, "" for nothing."""
    return " OR ".join(query.excluded)


def _count(texts: Iterable[str]) -> int:
    """How many words these have, each time that one comes: what FTS5 looks for one beside the other
    costs it that."""
    return len(
        tokens(" ".join(taken_apart(text) or "" if in_parts(text) else text for text in texts))
    )


def _excluded(item: str) -> str:
    name, unwanted = _form(item)
    return _expression(unwanted, " *" if name == "prefixes" else "")


def _expression(text: str, star: str = "") -> str:
    """A phrase of FTS5, or two: of the text as it is, and of its parts."""
    parts = taken_apart(text)
    whole = '"' + text.replace('"', '""') + '"' + star
    if parts is None:
        return whole
    apart = '"' + parts.replace('"', '""') + '"' + star
    return apart if in_parts(text) else f"({whole} OR {apart})"


# Boosts: what a search may count beside relevance, how new a record is and how important. Off
# unless they are asked for.

HALF_LIFE_DAYS = 30.0
Weight = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Days = Annotated[float, Field(gt=0, le=36_525, allow_inf_nan=False)]  # a century
WRONG_MODE = "recency and importance change the order of ranked searches: set `mode` to hybrid or semantic with them"


class Boosts(Struct, frozen=True):
    """Weights of 0 to 1: with 0.3, a score loses at most 30 % of itself, so it stays from 0 to 1
    and nothing is found less.

    A record keeps 1 - recency + recency * 2^(-age / half-life) of its score, and 1 - importance +
    importance * its own, which
    is the number at `data.importance`, from 0 to 1; one that has none counts as 0.5.
    """

    recency: float = 0.0
    recency_days: float = HALF_LIFE_DAYS
    importance: float = 0.0
    now_ms: int = 0  # what ages are counted to

    def __bool__(self) -> bool:
        """Whether anything is asked for."""
        return self.recency > 0 or self.importance > 0


NO_BOOSTS = Boosts()
