"""Finds where the predicate of a fact begins: its words before are the subject."""

from collections.abc import Sequence

from memrelay.memory.models.named_memories.dedup import lexicon
from memrelay.memory.models.named_memories.dedup.lexicon import ENGLISH, FUNCTION_WORDS, stem_of
from memrelay.memory.models.named_memories.dedup.tokenizer import Token
from memrelay.memory.search.text.irregular import FORMS

_BEFORE_NOUNS = lexicon.ARTICLES | lexicon.MARKERS | lexicon.DEFINITE
_NO_ENDING = ("ss", "us", "is")


def find_verb(tokens: Sequence[Token]) -> tuple[int, bool]:
    """Return the place of the first finite verb, and whether there is one.

    Without a known verb, it is the first word that looks like one, or the second content word.
    """
    found = next((at for at, _ in enumerate(tokens) if _is_finite(tokens, at)), None)
    # answers and notes may be nouns too
    is_unclear = found is None or _has_ending(tokens[found].text)
    if is_unclear and _begins_with_verb(tokens):
        found = 0
    if found is None:
        found = next((at for at, _ in enumerate(tokens) if _looks_finite(tokens, at)), None)
    if found is None:
        content = [at for at, token in enumerate(tokens) if token.text not in FUNCTION_WORDS]
        return (content[1] if len(content) > 1 else 0), False
    return found, True


def names_role(tokens: Sequence[Token]) -> bool:
    """Return whether `is` links the subject to something of which there is one: is the manager."""
    at, _ = find_verb(tokens)
    return (
        at + 1 < len(tokens)
        and tokens[at].text in ("is", "are")
        and (tokens[at + 1].text in lexicon.DEFINITE or tokens[at + 1].is_possessive)
    )


def _begins_with_verb(tokens: Sequence[Token]) -> bool:
    """Return whether a fact without a subject begins with its verb: prefers tea, bought a car."""
    if len(tokens) < 2 or tokens[0].is_name or tokens[0].is_possessive:
        return False
    text, after = tokens[0].text, tokens[1]
    if _has_ending(text):
        return stem_of(text, ENGLISH) in lexicon.VERBS
    # not an adjective: preferred airline
    begins_object = after.is_name or after.text[0] == "#" or after.text in FUNCTION_WORDS
    return begins_object and (text in FORMS.past or text in FORMS.finite or text.endswith("ed"))


def _is_finite(tokens: Sequence[Token], at: int) -> bool:
    text = tokens[at].text
    function_word = FUNCTION_WORDS.get(text)
    if function_word is not None:
        is_auxiliary = bool(function_word.tenses) or any(
            feature.startswith("mode:") for feature in function_word.features
        )
        return (is_auxiliary or function_word.denies) and text != "no"
    if not _may_be_verb(tokens, at):
        return False
    if text in FORMS.finite or (text.endswith("ed") and text[-3:] != "eed" and len(text) > 4):
        return True
    is_known = stem_of(text, ENGLISH) in lexicon.VERBS
    return is_known and (text in FORMS.past or _has_ending(text) or _is_plural(tokens[at - 1]))


def _looks_finite(tokens: Sequence[Token], at: int) -> bool:
    return _may_be_verb(tokens, at) and _has_ending(tokens[at].text)


def _may_be_verb(tokens: Sequence[Token], at: int) -> bool:
    """Return whether the word follows a subject, and no auxiliary follows it."""
    if not at or tokens[at].is_name or tokens[at].is_possessive or tokens[at].text[0] == "#":
        return False
    before = tokens[at - 1]
    after = FUNCTION_WORDS.get(tokens[at + 1].text) if at + 1 < len(tokens) else None
    follows_noun = before.text not in _BEFORE_NOUNS and not before.is_possessive
    return follows_noun and not (after is not None and after.tenses)


def _has_ending(text: str) -> bool:
    return text.endswith("s") and not text.endswith(_NO_ENDING) and text.isalpha()


def _is_plural(token: Token) -> bool:
    function_word = FUNCTION_WORDS.get(token.text)
    if function_word is not None:
        return any(feature.startswith("person:") for feature in function_word.features)
    return _has_ending(token.text) or token.text in FORMS.plurals or token.text == "people"
