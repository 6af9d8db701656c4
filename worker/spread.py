"""How far inputs have spread over public swarms: what is said there ends its cascade, and begins
one in each that listens.

Two that hear each other and themselves say twice as much with each hop, so hops alone do not bound
it. Each worker counts what
its own pipelines say, and begins anew with its process.
"""

from worker.inputs import Input
from worker.outcome import Outcome

MOST = 10_000  # inputs that are known, the latest


class Spread:
    """By what the input that began it is called: pipeline and id. Changed by the loop alone, and
    read by database threads."""

    def __init__(self) -> None:
        """Nothing was said."""
        self._said: dict[str, int] = {}
        self._began: dict[str, str] = {}  # an input that goes on later -> what it began with

    def of(self, work: Input) -> int:
        """How many messages were said in public on account of what this input began with."""
        return self._said.get(self._name(work.began, work.plan.uid, work.root or work.id), 0)

    def add(self, outcome: Outcome, said: int) -> str:
        """It has said so much in public. What it began with."""
        name = self._name(outcome.began, outcome.uid, outcome.root)
        if said:
            self._said[name] = self._said.pop(name, 0) + said
            _forget_oldest(self._said)
        if outcome.began and (outcome.continuations or outcome.put_off):
            self._began[f"{outcome.uid}/{outcome.root}"] = name
            _forget_oldest(self._began)
        return name

    def _name(self, began: str, uid: str, root: str) -> str:
        own = f"{uid}/{root}"
        return began or self._began.get(own, own)


def _forget_oldest(known: dict[str, int] | dict[str, str]) -> None:
    if len(known) > MOST:
        del known[next(iter(known))]
