"""The difference between two texts, by words."""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from difflib import Match, SequenceMatcher
from itertools import accumulate
from typing import Literal, NamedTuple

# A Chinese or Japanese character, a word, another character, or the beginning of the text; and the
# whitespace after it.
TOKEN = re.compile(r"([぀-ヿ㐀-鿿]|[^\W぀-ヿ㐀-鿿]+|[^\w\s]|^)(\s*)")
LINE = re.compile(r"[^\n]*\n|[^\n]+")
# Words of both texts together.
MAX_WORDS = 20_000
# Longer texts are not split into words.
MAX_CHARACTERS = 400_000
# Bounds the search for equal parts: pairs of equal words that it looks at, about 0.1 s.
MAX_PAIRS = 500_000
# From this many parts on, SequenceMatcher takes those of more than 1 % for no anchors.
MANY_PARTS = 200
# Unchanged words shown next to a change.
CONTEXT = 25
MAX_SHOWN_CHARACTERS = 30_000
# Characters of the marks of a change.
MARKS = 100
Kind = Literal["same", "deleted", "added", "gap"]


class Piece(NamedTuple):
    """A part of a comparison. The text of a gap is the number of unchanged words in it."""

    kind: Kind
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
    changes = [piece for piece in _join_changes(_compare_lines(old, new)) if piece.text]
    return _limit(_shorten(changes))


def _compare_lines(old: str, new: str) -> Iterator[Piece]:
    """Yield all parts: equal lines are matched first, and words in the lines between them."""
    before, after = LINE.findall(old), LINE.findall(new)
    blocks = _match_blocks(before, after, MAX_PAIRS)
    a = c = 0
    for block in blocks:
        deleted, added = "".join(before[a : block.a]), "".join(after[c : block.b])
        yield from _compare_tokens(deleted, added, MAX_PAIRS // len(blocks))
        a, c = block.a + block.size, block.b + block.size
        yield Piece("same", "".join(before[block.a : a]))


def _compare_tokens(old: str, new: str, room: int) -> Iterator[Piece]:
    """Yield all parts. Whitespace is compared only after words that are equal."""
    before, after = TOKEN.findall(old), TOKEN.findall(new)
    a = c = 0
    for block in _match_blocks([word for word, _ in before], [word for word, _ in after], room):
        yield Piece("deleted", _join(before[a : block.a]))
        yield Piece("added", _join(after[c : block.b]))
        a, c = block.a + block.size, block.b + block.size
        same = zip(before[block.a : a], after[block.b : c], strict=True)
        for (word, space), (_, other) in same:
            yield Piece("same", word)
            yield from _compare_spaces(space, other)


def _compare_spaces(old: str, new: str) -> Iterator[Piece]:
    if old == new:
        yield Piece("same", old)
        return
    yield Piece("deleted", old)
    yield Piece("added", new)


def _match_blocks(old: Sequence[str], new: Sequence[str], room: int) -> list[Match]:
    """Return equal parts in order, and an empty one at the end.

    The longest are found first, while there is `room` for work.
    """
    matcher, counts = SequenceMatcher(None, old, new), _count_anchors(new)
    pairs = [0, *accumulate(1 + counts.get(part, 0) for part in old)]
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
    return [*sorted(found), Match(len(old), len(new), 0)]


def _count_anchors(parts: Sequence[str]) -> dict[str, int]:
    """Return how often each part occurs that SequenceMatcher takes as an anchor."""
    most = len(parts) // 100 + 1 if len(parts) >= MANY_PARTS else len(parts)
    return {part: count for part, count in Counter(parts).items() if count <= most}


def _join_changes(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the parts with neighbors of one kind joined."""
    texts: dict[Kind, str] = {"deleted": "", "added": "", "same": ""}
    for kind, text in pieces:
        if text and kind != "same" and texts["same"]:
            yield from _end_change(texts)
            texts = dict.fromkeys(texts, "")
        texts[kind] += text
    yield from _end_change(texts)


def _end_change(texts: dict[Kind, str]) -> Iterator[Piece]:
    """Yield a change and what follows it. Whitespace that both sides end with has not changed."""
    deleted, added = texts["deleted"], texts["added"]
    space = deleted[len(deleted.rstrip()) :]
    kept = space if added[len(added.rstrip()) :] == space else ""
    yield Piece("deleted", deleted.removesuffix(kept))
    yield Piece("added", added.removesuffix(kept))
    yield Piece("same", kept + texts["same"])


def _shorten(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Yield the parts with a gap in each long part that has not changed."""
    for index, piece in enumerate(pieces):
        tokens = TOKEN.findall(piece.text) if piece.kind == "same" else []
        head = CONTEXT if index > 0 else 0
        tail = CONTEXT if index < len(pieces) - 1 else 0
        left_out = _count_words(tokens[head : len(tokens) - tail])
        if left_out <= CONTEXT:
            yield piece
            continue
        yield Piece("same", _join(tokens[:head]))
        yield Piece("gap", f"{left_out:,}")
        yield Piece("same", _join(tokens[len(tokens) - tail :]))


def _limit(pieces: Iterable[Piece]) -> WordDiff:
    """Return the parts that fit, with line breaks that have changed made visible."""
    found, room = list[Piece](), MAX_SHOWN_CHARACTERS
    for kind, text in pieces:
        if not text:
            continue
        if room <= 0:
            return WordDiff(found, is_complete=False)
        shown, is_cut = text[:room], len(text) > room
        room -= len(text) + MARKS
        if kind in ("deleted", "added") and shown.isspace():
            shown = shown.replace("\n", "↵\n")
        found.append(Piece(kind, shown))
        if is_cut:
            return WordDiff(found, is_complete=False)
    return WordDiff(found)


def _count_words(tokens: Sequence[tuple[str, str]]) -> int:
    return sum(word[:1].isalnum() for word, _ in tokens)


def _join(tokens: Iterable[tuple[str, str]]) -> str:
    return "".join(word + space for word, space in tokens)
