"""What this process counts of its own traffic, for /metrics and /status."""

from collections import Counter


class Traffic:
    """Only ever grows, but for what is counted at this moment."""

    def __init__(self) -> None:
        """Nothing has come yet."""
        self.answers: Counter[int] = Counter()  # by status
        self.listeners = 0  # live, at this moment
        self.dropped_listeners = 0  # that were too slow
        self.departures = 0  # of listeners, for whatever reason
        self.connections = 0  # open, at this moment
        self.turned_away = 0  # connections for which there was no room
        self.too_slow = 0  # connections whose request's head was not whole in time
        self.under_way = 0  # bytes of bodies that are not whole yet, at this moment
