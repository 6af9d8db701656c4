"""The query parser: words and a small syntax (docs/search.md). No input is a syntax error.

Malformed syntax is treated as words, and so are FTS5's own operators. Everything passed to FTS5
is quoted here.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from typing import Annotated, Literal

from msgspec import Struct
from msgspec.structs import replace
from pydantic import Field

from memrelay.memory.engine.timestamps import parse_ms
from memrelay.memory.errors import Refused
from memrelay.memory.search.text.emoji import SKIN_TONES, emoji_words
from memrelay.memory.search.text.words import BREAK, in_parts, taken_apart, tokens

# FTS5's time grows with the square of the number of words, and with each hit in a long text.
# A few thousand words take seconds.
MAX_WORDS = 256
MAX_ITEMS = 4096  # distinct items between spaces, in all modes
MAX_CHARS = 1 << 16  # of all distinct items together
MAX_PREFIXES = 8  # each may match every word of the store
MAX_FILTERS = 64  # SQLite limits the depth of a condition

HALF_LIFE_DAYS = 30.0
Weight = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Days = Annotated[float, Field(gt=0, le=36_525, allow_inf_nan=False)]  # at most a century
WRONG_MODE = (
    "recency and importance change the order of ranked searches: "
    "set `mode` to hybrid or semantic with them"
)
# `model`: a cross-encoder rereads the best records.
Rerank = Literal["model"]
WRONG_RERANK = (
    "`rerank` changes the order of hybrid searches without weights: "
    "set `mode` to hybrid, and no recency or importance"
)

_ITEM = re.compile(r'-?(?:(?:kind|tag|scope|after|before):)?"[^"]*"|\S+')
_FILTER = re.compile(r'(kind|tag|scope|after|before):(?:"([^"]+)"|([^"].*))', re.DOTALL)
_NOTHING = str.maketrans({"\x00": " ", BREAK: " "} | dict.fromkeys(SKIN_TONES))
_CURLY = "\u201c\u201d\u201e\u201f\u00ab\u00bb\uff02"  # typographic quotes
_QUOTED = re.compile(rf'"[^"]*"|(?<!\w)[{_CURLY}]([^"{_CURLY}]*)[{_CURLY}](?!\w)')
# Most queries are such words alone: no syntax, and no parts that the index has in addition.
_PLAIN_WORD = r"[A-Za-z][a-z]*"
_PLAIN_WORDS = re.compile(rf"\s*{_PLAIN_WORD}(?:\s+{_PLAIN_WORD})*\s*", re.ASCII)
_is_plain_word = re.compile(_PLAIN_WORD).fullmatch
# the beginning of a commit hash
_HASH = re.compile("(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,39}")


class Query(Struct, frozen=True):
    """A parsed query. Records must have all words, phrases and prefixes, and no exclusion.

    A struct for speed, like Message.
    """

    words: tuple[str, ...] = ()  # as typed, distinct
    phrases: tuple[str, ...] = ()  # the text between the quotes
    prefixes: tuple[str, ...] = ()  # without the star
    excluded: tuple[str, ...] = ()  # quoted FTS5 expressions
    kinds: tuple[str, ...] = ()  # any of them
    scopes: tuple[str, ...] = ()  # any of them
    tags: tuple[str, ...] = ()  # all of them
    after_ms: int | None = None  # created at this Unix time or later
    before_ms: int | None = None  # created before this Unix time

    @property
    def wants_words(self) -> bool:
        """Whether there is text to match. Without any, the filters alone select the records."""
        return bool(self.words or self.phrases or self.prefixes)

    @property
    def filters(self) -> bool:
        """Whether the query names any filter."""
        return (
            bool(self.kinds or self.scopes or self.tags)
            or self.after_ms is not None
            or self.before_ms is not None
        )


class Boosts(Struct, frozen=True):
    """Weights of recency and importance, from 0 to 1. Both are off by default.

    With weight 0.3, a score loses at most 30 %. Scores stay between 0 and 1, and every record is
    still found. The recency factor is 1 - recency + recency * (2^(-n) + 2^(-n / 12)) / 2, where n
    is the age in half-lives. The importance factor is 1 - importance + importance *
    `data.importance`, a number from 0 to 1. A record without it counts as 0.5.
    """

    recency: float = 0.0
    recency_days: float = HALF_LIFE_DAYS
    importance: float = 0.0
    now_ms: int = 0  # the time at which ages are computed

    def __bool__(self) -> bool:
        return self.recency > 0 or self.importance > 0


NO_BOOSTS = Boosts()


@dataclass(slots=True)
class _ParseState:
    """The state of a query during parsing."""

    zone: tzinfo  # of dates and times without an offset
    found: dict[str, list[str]] = field(default_factory=dict)  # field of Query -> values
    after: list[int] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    unwanted: list[str] = field(default_factory=list)  # exclusions as typed

    def add(self, name: str, value: str) -> None:
        self.found.setdefault(name, []).append(value)


def parse(text: str, zone: tzinfo = UTC) -> Query:
    """Parse a query. Dates and times without an offset are in `zone`.

    Raises Refused: when it exceeds one of the limits above. `match_all` checks wanted words.
    """
    if len(text) <= MAX_CHARS and _PLAIN_WORDS.fullmatch(text):
        words = dict.fromkeys(text.split())
        _check_size(words)
        return Query(tuple(words))
    text = _QUOTED.sub(_straight_quotes, text.encode(errors="replace").decode().translate(_NOTHING))
    items = dict.fromkeys(_ITEM.findall(text))
    _check_size(items)
    state = _ParseState(zone)
    for item in items:
        _parse_item(item, state)
    query = Query(
        **{name: tuple(dict.fromkeys(values)) for name, values in state.found.items()},
        after_ms=max(state.after, default=None),
        before_ms=min(state.before, default=None),
    )
    if query.excluded and not query.wants_words and not query.filters:
        return replace(query, words=tuple(item for item in items if tokens(item)), excluded=())
    prefixes = len(query.prefixes) + sum(one.rstrip(")").endswith("*") for one in query.excluded)
    if prefixes > MAX_PREFIXES:
        raise Refused(
            f"the query has more than {MAX_PREFIXES} words that end with a star; "
            f"use at most {MAX_PREFIXES}"
        )
    if len(query.kinds) + len(query.scopes) + len(query.tags) > MAX_FILTERS:
        raise Refused(
            f"the query names more than {MAX_FILTERS} kinds, scopes and tags; "
            f"use at most {MAX_FILTERS}"
        )
    if query.excluded and (count := _count(state.unwanted)) > MAX_WORDS:
        raise Refused(f"the query excludes {count} words; exclude at most {MAX_WORDS}")
    return _with_hashes(_or_emoji(query, items))


def _or_emoji(query: Query, items: Iterable[str]) -> Query:
    """Return a query for the emoji if it has no words. Next to words, emoji are ignored."""
    if query.wants_words or query.excluded:
        return query
    words = (emoji for item in items for emoji in emoji_words(item))
    return replace(query, words=tuple(dict.fromkeys(words)))


def _straight_quotes(quoted: re.Match[str]) -> str:
    return quoted[0] if quoted[1] is None else f'"{quoted[1]}"'


def _with_hashes(query: Query) -> Query:
    """Turn words that look like the beginning of a hash into prefixes, up to the limit."""
    hashes = tuple(filter(_HASH.fullmatch, query.words))[: MAX_PREFIXES - len(query.prefixes)]
    if not hashes:
        return query
    return replace(
        query,
        words=tuple(word for word in query.words if word not in hashes),
        prefixes=query.prefixes + hashes,
    )


def plain(text: str) -> Query:
    """Return a query of plain words without any syntax.

    Raises Refused: when the text exceeds one of the limits.
    """
    items = dict.fromkeys(text.encode(errors="replace").decode().translate(_NOTHING).split())
    _check_size(items)
    return _or_emoji(Query(words=tuple(item for item in items if tokens(item))), items)


def _check_size(items: Collection[str]) -> None:
    if len(items) > MAX_ITEMS:
        raise Refused(f"the query has {len(items)} different words; use at most {MAX_ITEMS}")
    if (length := sum(map(len, items))) > MAX_CHARS:
        raise Refused(
            f"the different words of the query have {length} characters; use at most {MAX_CHARS}"
        )


def _parse_item(item: str, state: _ParseState) -> None:
    """Parse one item. It is a word unless it is well formed as something else."""
    if _filter(item, state):
        return
    if not tokens(item):
        return  # cannot match anything: punctuation, an emoji
    if item[0] == "-" and item[1] != "-" and not _FILTER.fullmatch(item, 1):
        state.unwanted.append(item[1:])
        state.add("excluded", _excluded(item[1:]))
    else:
        name, wanted = _form(item)
        state.add(name, wanted)


def _form(item: str) -> tuple[str, str]:
    """Return (field of Query, value) of an item to find or to exclude."""
    if item[0] == item[-1] == '"' and item.count('"') == 2:
        return "phrases", item[1:-1]
    if item[-1] == "*" and (item[-2].isalnum() or item[-2] > "\x7f") and '"' not in item:
        return "prefixes", item[:-1]
    return "words", item


def _filter(item: str, state: _ParseState) -> bool:
    """Parse a filter. Returns False if the item is not a well-formed filter."""
    match = _FILTER.fullmatch(item)
    if match is None:
        return False
    name, value = match[1], match[2] or match[3]
    if name not in ("after", "before"):
        state.add(name + "s", value)
        return True
    moment = parse_ms(value, state.zone)
    if moment is not None:
        (state.after if name == "after" else state.before).append(moment)
    return moment is not None


def match_all(query: Query) -> str:
    """Return the FTS5 expression for records that have everything wanted; "" if that is nothing.

    A quoted word of several tokens (`user-name`) becomes a phrase.
    Raises Refused: when the query has too many words.
    """
    count = _count((*query.words, *query.phrases, *query.prefixes))
    if count > MAX_WORDS:
        raise Refused(
            f"the query has {count} words, and a record must contain all of them; "
            f"use at most {MAX_WORDS}"
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
    """Return the FTS5 expression for records with any exclusion; "" without exclusions."""
    return " OR ".join(query.excluded)


def _count(texts: Sequence[str]) -> int:
    """Return the number of words, with repetitions, because FTS5's cost depends on it."""
    others = [text for text in texts if not _is_plain_word(text)]
    plain = len(texts) - len(others)
    if not others:
        return plain
    return plain + len(
        tokens(" ".join(taken_apart(text) or "" if in_parts(text) else text for text in others))
    )


def _excluded(item: str) -> str:
    name, unwanted = _form(item)
    return _expression(unwanted, " *" if name == "prefixes" else "")


def _expression(text: str, star: str = "") -> str:
    """Return an FTS5 phrase; or two, of the whole text and of its parts."""
    if _is_plain_word(text):
        return f'"{text}"{star}'
    parts = taken_apart(text)
    whole = '"' + text.replace('"', '""') + '"' + star
    if parts is None:
        return whole
    apart = '"' + parts.replace('"', '""') + '"' + star
    return apart if in_parts(text) else f"({whole} OR {apart})"
