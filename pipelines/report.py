"""The report of one check: it gathers every fault, each place's first error and all warnings."""

from collections.abc import Iterable

from pipelines.faults import Fault, Place, Severity, pointer
from pipelines.suggestions import did_you_mean

MOST = 200  # faults of a kind; a file of noise is not worth more


class Report:
    """Handed from check to check."""

    def __init__(self) -> None:
        """An empty one."""
        self._found: dict[Severity, list[Fault]] = {"error": [], "warning": []}
        self._wrong: set[str] = set()
        self.templates: set[str] = set()  # those that were looked at

    @property
    def errors(self) -> tuple[Fault, ...]:
        """What refuses the bundle, by place."""
        return tuple(sorted(self._found["error"], key=_order))

    @property
    def warnings(self) -> tuple[Fault, ...]:
        """What is allowed, but surely not meant, by place. Where there is an error it only follows
        from that."""
        return tuple(
            sorted(
                (fault for fault in self._found["warning"] if fault.pointer not in self._wrong),
                key=_order,
            )
        )

    def error(self, place: Place, rule: str, suggestion: str = "") -> None:
        """Adds an error. The first one of a place hides the next, which only follow from it."""
        at = pointer(place)
        if at not in self._wrong:
            self._wrong.add(at)
            self._add(Fault(at, rule, suggestion))

    def warn(self, place: Place, rule: str, suggestion: str = "") -> None:
        """Adds a warning."""
        self._add(Fault(pointer(place), rule, suggestion, "warning"))

    def unknown(self, place: Place, rule: str, word: str, known: Iterable[str]) -> None:
        """Adds an error about a word that is none of the `known`, with a did-you-mean, else with
        all of them."""
        if not self.full("error"):
            self.error(
                place, rule, did_you_mean(word, known) or f"known are {', '.join(sorted(known))}"
            )

    def full(self, severity: Severity) -> bool:
        """Is there no room for more? Then guessing what was meant is not worth its time either."""
        return len(self._found[severity]) > MOST

    def _add(self, fault: Fault) -> None:
        found = self._found[fault.severity]
        if len(found) < MOST:
            found.append(fault)
        elif len(found) == MOST:
            found.append(
                Fault("", f"there are more than these {MOST}", "mend them first", fault.severity)
            )


def _order(fault: Fault) -> list[str]:
    """The whole bundle first, agents[2] before agents[10]."""
    return [part.zfill(8) if part.isdecimal() else part for part in fault.pointer.split("/")]
