"""The terms of a query as an explanation tells them, with what the unknown ones may have meant."""

from collections.abc import Sequence

from memory.explanation import TermTold
from memory.folding import shown
from memory.recall.nearest import nearest
from memory.recall.scene import Scene
from memory.recall.terms import Term
from memory.words import plain_tokens

MOST_SUGGESTED = 8  # unknown words of a query; a suggestion takes 10 ms
MOST_SPELLINGS = 16  # of a term that are told


def terms_told(
    terms: Sequence[Term], states: Sequence[str], stop_words: Sequence[str], scene: Scene
) -> tuple[TermTold, ...]:
    """`states` are those of the terms, side by side."""
    told, suggested = [], 0
    for term, state in zip(terms, states, strict=True):
        suggestion = None
        if state == "unknown" and suggested < MOST_SUGGESTED:
            suggested += 1
            suggestion = _suggestion(term.text, scene)
        told.append(
            TermTold(
                shown(term.text),
                state,
                term.records,  # type: ignore[arg-type]
                tuple(map(shown, term.spellings[:MOST_SPELLINGS])),
                suggestion,
            )
        )
    return (*told, *(TermTold(word, "stop word", 0, (), None) for word in stop_words))


def _suggestion(text: str, scene: Scene) -> str | None:
    """For a single word; phrases and the like are none of them."""
    words = plain_tokens(text)
    meant = (
        nearest(words[0], scene.vocabulary, scene.expired)
        if len(words) == 1 and not text.endswith("*")
        else None
    )
    return None if meant is None else shown(meant)
