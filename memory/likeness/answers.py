"""What is on and what is off: two things that have changed their answers."""

from memory.likeness import grammar

_ANSWERS = (("on", "off"), ("yes", "no"))


def answers_swapped(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether what has the one answer in the first text has the other in the second: debug on,
    trace off.

    `one`, `other`: the words of the texts, in order.
    """
    return any(
        _swapped(_answered(one, *answers), _answered(other, *answers)) for answers in _ANSWERS
    )


def _swapped(one: tuple[str, str], other: tuple[str, str]) -> bool:
    return one == other[::-1] and one[0] != one[1] and "" not in one


def _answered(words: tuple[str, ...], yes: str, no: str) -> tuple[str, str]:
    """The words that say something before the one and the other; "" where it stands nowhere, or
    more than once."""
    if words.count(yes) != 1 or words.count(no) != 1:
        return "", ""
    telling = [word for word in words if word in (yes, no) or word not in grammar.SMALL]
    return _before(telling, yes), _before(telling, no)


def _before(words: list[str], answer: str) -> str:
    return words[words.index(answer) - 1] if words[0] != answer else ""
