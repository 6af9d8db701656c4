"""From an embedder's cosine to SOAT's scale, on which 0.95 is a duplicate and 0.75 related
(004_b7bbdd40b27e8d55.txt)."""

from typing import NamedTuple

DUPLICATE, RELATED = 0.95, 0.75  # the document's thresholds
CAP = 0.94  # the most that a pair can have that is not the same


class Curve(NamedTuple):
    """Cosines of an embedder."""

    related: float  # from which on texts are related
    # from which on they are the same, if each word of the one has its partner in the other
    same: float


CURVES = {
    "all-MiniLM-L6-v2-int8": Curve(0.60, 0.45),
    "wordllama-l2-supercat": Curve(0.60, 0.55),  # knows no order of words and little of their sense
}
CAREFUL = Curve(0.85, 0.85)  # of an embedder that nobody has measured


def curve_of(fingerprint: str) -> Curve:
    """That of the embedder whose fingerprint it is, by the name before its first slash."""
    return CURVES.get(fingerprint.partition("/")[0], CAREFUL)


def related(cosine: float, curve: Curve) -> float:
    """The score of two facts that are not the same: straight from 0 to 0.75 and on to the cap."""
    least = curve.related
    if cosine < least:
        return round(max(cosine, 0.0) / least * RELATED, 4)
    return round(RELATED + (min(cosine, 1.0) - least) / (1 - least) * (CAP - RELATED), 4)


def same(cosine: float, curve: Curve) -> float:
    """The score of two facts that are the same."""
    return round(
        DUPLICATE + (min(cosine, 1.0) - curve.same) / (1 - curve.same) * (1 - DUPLICATE), 4
    )
