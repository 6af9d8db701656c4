"""How long to wait before what has ended is begun again: the embedded server, a worker's
session."""


class Backoff:
    """Delays that double from `first_s` to `most_s`, and begin anew after a life of
    `healthy_after_s`."""

    def __init__(self, *, first_s: float, most_s: float, healthy_after_s: float) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._healthy_after_s = healthy_after_s
        self._next_s = first_s

    def delay_s(self, life_s: float) -> float:
        """The delay after a life of `life_s` seconds, 0 where it did not come up at all."""
        if life_s >= self._healthy_after_s:
            self._next_s = self._first_s
        delay = self._next_s
        self._next_s = min(delay * 2, self._most_s)
        return delay
