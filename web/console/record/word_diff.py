"""The difference between two texts, by words."""

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher
from itertools import accumulate
from typing import Literal, NamedTuple

# A word, a Chinese or Japanese character, whitespace, or another character.
TOKEN = re.compile(r"[぀-ヿ㐀-鿿]|[^\W぀-ヿ㐀-鿿]+|\s+|[^\w\s]")
# Words of both texts together.
MAX_WORDS = 20_000
# Longer texts are not split into words.
MAX_CHARACTERS = 400_000
LINE = re.compile(r"[^\n]*\n|[^\n]+")
# Bounds the search for equal parts: pairs of equal tokens that it looks at, about 0.1 s.
MAX_PAIRS = 500_000
# From this many parts on, SequenceMatcher takes those of more than 1 % for no anchors.
MANY_TOKENS = 200
# Unchanged tokens shown next to a change.
CONTEXT = 40
MAX_SHOWN_CHARACTERS = 30_000
Sort = Literal["same", "deleted", "added", "gap"]


class Piece(NamedTuple):
    """A part of a comparison. The text of a gap is the number of unchanged words in it."""

    sort: Sort
    text: str


class WordDiff(NamedTuple):
    """The changes from one text to another. `is_complete` is False if only the first are shown."""

    pieces: list[Piece]
    is_complete: bool = True


def compare_words(old: str, new: str) -> WordDiff | None:
    """Return the changed words with their surroundings, None if the texts are too long."""
    if len(old) + len(new) > MAX_CHARACTERS:
        return None
    if _count_words(TOKEN.findall(old)) + _count_words(TOKEN.findall(new)) > MAX_WORDS:
        return None
    return _limit(_shorten(_join_changes(_list_changes(old, new))))


def _list_changes(old: str, new: str) -> Iterator[Piece]:
    """Yield all parts: equal lines are matched first, and words in the lines between them."""
    changed = list(_split(LINE.findall(old), LINE.findall(new), MAX_PAIRS))
    room = MAX_PAIRS // len(changed)
    for before, after, same in changed:
        for deleted, added, kept in _split(TOKEN.findall(before), TOKEN.findall(after), room):
            yield from (Piece("deleted", deleted), Piece("added", added), Piece("same", kept))
        yield Piece("same", same)


def _split(old: Sequence[str], new: Sequence[str], room: int) -> Iterator[tuple[str, str, str]]:
    """Yield (deleted text, added text, equal text after them)."""
    a = c = 0
    for block in [*_match_blocks(old, new, room), Match(len(old), len(new), 0)]:
        end = block.a + block.size
        yield "".join(old[a : block.a]), "".join(new[c : block.b]), "".join(old[block.a : end])
        a, c = end, block.b + block.size


def _count_words(tokens: Sequence[str]) -> int:
    return sum(token[0].isalnum() for token in tokens)


def _match_blocks(old: Sequence[str], new: Sequence[str], room: int) -> list[Match]:
    """Return equal parts in order. The longest are found first, while there is `room` for work.

    Whitespace and very frequent parts are no anchors.
    """
    matcher, counts = SequenceMatcher(str.isspace, old, new), _count_anchors(new)
    pairs = [0, *accumulate(1 + counts.get(token, 0) for token in old)]
    found, regions = list[Match](), deque([(0, len(old), 0, len(new))])
    while regions:
        start, end, start_new, end_new = regions.popleft()
        room -= pairs[end] - pairs[start]
        if room < 0:
            break
        match = matcher.find_longest_match(start, end, start_new, end_new)
        if match.size:
            found.append(match)
            regions.append((start, match.a, start_new, match.b))
            regions.append((match.a + match.size, end, match.b + match.size, end_new))
    return sorted(found)


def _count_anchors(tokens: Sequence[str]) -> dict[str, int]:
    """Return how often each part occurs that SequenceMatcher takes as an anchor."""
    counts = Counter(token for token in tokens if not token.isspace())
    most = len(tokens) // 100 + 1 if len(tokens) >= MANY_TOKENS else len(tokens)
    return {token: count for token, count in counts.items() if count <= most}


def _join_changes(pieces: Iterator[Piece]) -> list[Piece]:
    """Return the parts with changes joined that only whitespace separates."""
    found, deleted, added, space = list[Piece](), "", "", ""

    def flush() -> None:
        changes = Piece("deleted", deleted), Piece("added", added), Piece("same", space)
        found.extend(piece for piece in changes if piece.text)

    for sort, text in pieces:
        if sort == "same" and text.isspace() and (deleted or added) and not space:
            space = text
        elif sort == "same" and text:
            flush()
            deleted = added = space = ""
            found.append(Piece("same", text))
        elif text:
            deleted += space + (text if sort == "deleted" else "")
            added += space + (text if sort == "added" else "")
            space = ""
    flush()
    return _merge_same(found)


def _merge_same(pieces: list[Piece]) -> list[Piece]:
    merged = list[Piece]()
    for piece in pieces:
        if merged and piece.sort == merged[-1].sort == "same":
            merged[-1] = Piece("same", merged[-1].text + piece.text)
        else:
            merged.append(piece)
    return merged


def _shorten(pieces: list[Piece]) -> Iterator[Piece]:
    """Yield the parts with a gap in each long part that has not changed."""
    for index, piece in enumerate(pieces):
        tokens = TOKEN.findall(piece.text) if piece.sort == "same" else []
        head = CONTEXT if index > 0 else 0
        tail = CONTEXT if index < len(pieces) - 1 else 0
        left_out = tokens[head : len(tokens) - tail]
        words = _count_words(left_out)
        if words <= CONTEXT:
            yield piece
            continue
        yield Piece("same", "".join(tokens[:head]))
        yield Piece("gap", f"{words:,}")
        yield Piece("same", "".join(tokens[len(tokens) - tail :]))


def _limit(pieces: Iterator[Piece]) -> WordDiff:
    """Return the parts that fit, with line breaks that have changed made visible."""
    found, room = list[Piece](), MAX_SHOWN_CHARACTERS
    for sort, text in pieces:
        if not text:
            continue
        if room <= 0:
            return WordDiff(found, is_complete=False)
        shown = text[:room]
        # The marks of a change need room too.
        room -= len(text) + 100
        if sort in ("deleted", "added") and shown.isspace():
            shown = shown.replace("\n", "↵\n")
        found.append(Piece(sort, shown))
    return WordDiff(found, is_complete=room > -100)
