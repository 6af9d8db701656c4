"""What this process counts of its own traffic, for /metrics and /status."""
from collections import Counter


class Traffic:
    """Only ever grows, but for the listeners, who come and go."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self.answers: Counter[int] = Counter()   # by status
        self.listeners = 0                       # live, at this moment
        self.dropped_listeners = 0               # that were too slow
        self.departures = 0                      # of listeners, for whatever reason
