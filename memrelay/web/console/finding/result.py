"""What a search finds, and how names are matched."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Result:
    """Something that was found. `note` describes it. Results with higher scores come first."""

    title: str
    url: str
    uid: str
    pipeline: str
    note: str = ""
    score: float = 0.0


def score_names(text: str, names: tuple[str, ...]) -> float:
    """Return how well the first of some names, or any of them, matches a text; 0 for not at all.

    All words of the text must occur in the names.
    """
    wanted, name = text.casefold().strip(), names[0].casefold()
    if wanted in (one.casefold() for one in names):
        return 3.0
    if name.startswith(wanted):
        return 2.0
    everything = " ".join(names).casefold()
    return 1.0 if all(word in everything for word in wanted.split()) else 0.0
